package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
)

// Limits of a read for large values, whose senders are unknown. A value above them is received
// and dropped; an entry that matters is read again by itself when there is memory for it.
const (
	largeValue  = 64 << 10
	largeBudget = 32 << 20 // of large values in the reply to one read
	mostValue   = 64 << 20 // of one value (limit event-value)
)

// leaving says what a buffer leaves out of a reply to a stream read.
type leaving struct {
	on    bool
	wants func(event.Type) bool
	large int // bytes of large values so far
	out   []leftOut
}

// leftOut is a value that was dropped; only its length is known.
type leftOut struct{ at, bytes int }

// leave makes the buffer leave out what is too large or does not matter to the reader.
func (r *replyBuffer) leave(wants func(event.Type) bool) {
	r.left = leaving{on: true, wants: wants, out: r.left.out[:0]}
}

// keeps reports whether a value of n bytes that comes next is kept.
func (r *replyBuffer) keeps(n int) bool {
	l := &r.left
	if !l.on || n <= largeValue {
		return true
	}
	if n > mostValue || l.large > 0 && l.large+n > largeBudget {
		return false
	}
	if typ := lastType(r.text); typ != "" && l.wants != nil && !l.wants(typ) {
		return false
	}
	l.large += n
	return true
}

// lastType is the type of the entry whose value comes next, if its type stands before
// that, as it does where the engine has written it.
func lastType(text []byte) event.Type {
	const name = "\r\n$4\r\ntype\r\n$"
	at := bytes.LastIndex(text, []byte(name))
	if at < 0 {
		return ""
	}
	length, rest, _ := bytes.Cut(text[at+len(name):], []byte("\r\n"))
	n, err := strconv.Atoi(string(length))
	if err != nil || n < 0 || n > len(rest) {
		return ""
	}
	return event.Type(rest[:n])
}

// skip forgets a value and writes what stands for it.
func (r *replyBuffer) skip(part *io.LimitedReader) (int64, error) {
	n := int(part.N)
	got, err := io.Copy(io.Discard, part)
	if err != nil || int(got) != n {
		return got, err //nolint:wrapcheck // the client says of what
	}
	instead := strconv.Itoa(n-2) + " bytes were left out"
	r.text = r.text[:bytes.LastIndexByte(r.text, '$')] // of its length
	r.left.out = append(r.left.out, leftOut{at: len(r.text), bytes: n - 2})
	r.text = append(r.text, "$"+strconv.Itoa(len(instead))+"\r\n"+instead+"\r\n"...)
	return got, nil
}

// omitted is how many bytes the largest value has that was left out of an entry; 0 if it is
// whole.
func (r *replyBuffer) omitted(e *rawEntry) (most int) {
	for _, left := range r.left.out {
		if left.at >= e.whole.from && left.at < e.whole.to {
			most = max(most, left.bytes)
		}
	}
	return most
}

// errValue is the error about an entry with a value of n bytes.
func errValue(n int) error {
	return fmt.Errorf("the entry has a value of %d bytes, more than %d MiB (limit event-value)", n, mostValue>>20)
}

// Omitted reports whether the message still has to be read, by Load.
func (m *Message) Omitted() bool { return m.omitted }

// Load reads omitted messages as far as there is memory for them, and returns the rest in
// left. Messages that are gone from the stream are handled.
func (s *Store) Load(ctx context.Context, r Reader, omitted []Message) (msgs, left []Message, handled []Handled, now time.Time, err error) {
	if now, err = s.Now(ctx); err != nil {
		return nil, omitted, nil, now, err
	}
	for size := 0; len(omitted) > 0 && size < largeBudget; omitted = omitted[1:] {
		m := omitted[0]
		text, err := s.loadInto(ctx, &r, &m, now)
		if err != nil {
			return msgs, omitted, handled, now, err
		}
		if text == 0 {
			handled = append(handled, Handled{m.Tenant, m.ID})
			continue
		}
		size += text
		msgs = append(msgs, m)
	}
	return msgs, omitted, handled, now, nil
}

// loadInto reads one late message, and returns how long it is; 0 if it is gone.
func (s *Store) loadInto(ctx context.Context, r *Reader, m *Message, now time.Time) (int, error) {
	in := s.memory.bufferPool.take()
	defer s.memory.bufferPool.back(in)
	read := in.prompt(ctx, []any{"xrange", &s.keysFor(m.Tenant).stream, &m.ID, &m.ID})
	if err := s.rdb.Process(ctx, read); err != nil {
		return 0, failed("read an entry", err)
	}
	reply := reply{text: in.reply()}
	if why := refusal(reply.text); why != "" || reply.list() < 1 {
		return 0, nil // a read of the stream says what is wrong
	}
	var few [fewSpans]span
	entry := rawEntry{fields: few[:0]}
	if reply.entry(&entry); reply.bad {
		return 0, failed("read an entry", errReply)
	}
	*m = Message{Tenant: m.Tenant, Read: now}
	s.entered(m, r, &entry)
	return len(reply.text), nil
}
