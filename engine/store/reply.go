package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// errReply says that a reply is not what its command replies.
var errReply = errors.New("the reply cannot be read")

// reply reads what Redis has sent (RESP 2 or 3) in place. go-redis makes a map of
// each entry of a stream and a text of each of its fields, also of those that
// nobody asks for, which costs more than all else that is done with most of them.
type reply struct {
	text []byte
	at   int
	bad  bool // what was read so far is no reply

	mapped bool // streams are by their names, as in RESP 3
}

// head reads the beginning of a value: its kind, and its number or length,
// negative for nothing.
func (r *reply) head() (kind byte, n int) {
	end := bytes.IndexByte(r.text[r.at:], '\n')
	if r.bad || end < 2 {
		r.bad = true
		return 0, -1
	}
	line := r.text[r.at : r.at+end-1]
	r.at += end + 1
	if line[0] == '_' {
		return '_', -1
	}
	n, sign := 0, 1
	for i, c := range line[1:] {
		switch {
		case i == 0 && c == '-':
			sign = -1
		case c >= '0' && c <= '9':
			n = 10*n + int(c-'0')
		default:
			r.bad = true
			return 0, -1
		}
	}
	return line[0], sign * n
}

// list reads the beginning of a list, or of a map as a list of names and values.
func (r *reply) list() int {
	kind, n := r.head()
	switch kind {
	case '*', '_':
		return n
	case '%':
		return 2 * n
	default:
		r.bad = true
		return -1
	}
}

// streams reads the beginning of what XREADGROUP replies: how many streams follow.
func (r *reply) streams() int {
	if len(r.text) == 0 {
		return 0
	}
	r.mapped = r.text[0] == '%'
	n := r.list()
	if r.mapped {
		n /= 2
	}
	return n
}

// stream reads the beginning of one: its name, and how many entries follow.
func (r *reply) stream() (name span, entries int) {
	if !r.mapped && r.list() != 2 {
		r.bad = true
	}
	name = r.bulk()
	return name, r.list()
}

// span is a part of a reply.
type span struct{ from, to int }

// bulk reads a text.
func (r *reply) bulk() span {
	kind, n := r.head()
	if kind != '$' || n < 0 || r.at+n+2 > len(r.text) {
		r.bad = true
		return span{}
	}
	s := span{r.at, r.at + n}
	r.at += n + 2
	return s
}

func (r *reply) of(s span) []byte { return r.text[s.from:s.to] }

// rawEntry is an entry of a stream within a reply.
type rawEntry struct {
	reply  *reply
	id     span
	fields []span // name after name with its value; they are overwritten by the next entry
	whole  span   // from the first field to the end of the last
	named  []string
}

// fewSpans is how many fields most entries have at most, names and values.
const fewSpans = 32

// entry reads an entry and overwrites the previous one.
func (r *reply) entry(e *rawEntry) {
	e.reply, e.fields = r, e.fields[:0]
	if r.list() != 2 {
		r.bad = true
		return
	}
	e.id = r.bulk()
	n := r.list()
	e.whole = span{r.at, r.at}
	for range n {
		e.fields = append(e.fields, r.bulk())
	}
	e.whole.to = r.at
}

// field is the value of a field; nil if there is none.
func (e *rawEntry) field(name string) []byte {
	var found []byte
	for i := 0; i+1 < len(e.fields); i += 2 {
		if string(e.reply.of(e.fields[i])) == name {
			found = e.reply.of(e.fields[i+1])
		}
	}
	return found
}

// texts are the fields, until the next entry is read, the id, and the text of all
// fields. They share one string, so keeping one keeps only its own entry in memory.
func (e *rawEntry) texts() (fields []string, id, text string) {
	text = string(e.reply.of(span{e.id.from, e.whole.to}))
	id, text = text[:e.id.to-e.id.from], text[e.whole.from-e.id.from:]
	if e.named = e.named[:0]; cap(e.named) < len(e.fields) {
		e.named = make([]string, 0, len(e.fields))
	}
	for i := 0; i+1 < len(e.fields); i += 2 {
		name, value := e.fields[i], e.fields[i+1]
		e.named = append(e.named, text[name.from-e.whole.from:name.to-e.whole.from], text[value.from-e.whole.from:value.to-e.whole.from])
	}
	return e.named, id, text
}

// fieldsOf are the fields that the text of an entry has, in the order of their names.
func fieldsOf(text string) []string { return sortFields(fieldsAsSent(text)) }

// fieldsAsSent returns the fields of the text of an entry, in its order.
func fieldsAsSent(text string) []string {
	in := reply{text: []byte(text)}
	e := rawEntry{reply: &in, whole: span{0, len(text)}}
	for in.at < len(text) && !in.bad {
		e.fields = append(e.fields, in.bulk())
	}
	fields, _, _ := e.texts()
	return fields
}

// sortFields puts fields into the order of their names; of those of one name only
// the last one stays.
func sortFields(fields []string) []string {
	const few = 64
	if len(fields) > few {
		return listed(object(fields))
	}
	n := 0
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		at := n
		for at > 0 && fields[at-2] > name {
			at -= 2
		}
		if at > 0 && fields[at-2] == name {
			fields[at-1] = value
			continue
		}
		copy(fields[at+2:n+2], fields[at:n])
		fields[at], fields[at+1] = name, value
		n += 2
	}
	return fields[:n]
}

// identifier is the id of the entry.
func (e *rawEntry) identifier() string { return string(e.reply.of(e.id)) }

// bufferPool keeps buffers for replies to stream reads. Without one go-redis grows a
// string until it holds the reply, which takes five times as much memory each time.
type bufferPool struct{ spare sync.Pool }

// replyBuffer holds one reply.
type replyBuffer struct {
	text  []byte
	asked prompt // for it; nothing if it is waited for
	left  leaving
}

// mostKept is the capacity in bytes above which a buffer is not reused.
const mostKept = 1 << 20

func (r *bufferPool) take() *replyBuffer {
	if kept, ok := r.spare.Get().(*replyBuffer); ok {
		return kept
	}
	return new(replyBuffer)
}

// several returns buffers for n replies.
func (r *bufferPool) several(n int) []*replyBuffer {
	out := make([]*replyBuffer, n)
	for i := range out {
		out[i] = r.take()
	}
	return out
}

// back returns buffers to the pool. The caller must not use them any more.
func (r *bufferPool) back(used ...*replyBuffer) {
	for _, one := range used {
		if one.empty() {
			r.spare.Put(one)
		}
	}
}

// empty makes it ready for another reply. It reports false if it has become too large.
func (r *replyBuffer) empty() bool {
	r.text, r.asked, r.left = r.text[:0], prompt{}, leaving{out: r.left.out[:0]}
	return cap(r.text) <= mostKept
}

// waiting is a command whose reply is read into the buffer.
func (r *replyBuffer) waiting(ctx context.Context, args []any) redis.Cmder {
	return redis.NewRawWriteToCmd(ctx, r, args...)
}

// prompt is a command that answers at once, as all commands do in the simulator, which has
// no connection to read from and writes into the buffer itself.
type prompt struct {
	*redis.RawCmd

	buffer *replyBuffer
}

// Buffer is where a Redis inside the process puts its reply.
func (p *prompt) Buffer() *[]byte { return &p.buffer.text }

// prompt is such a command.
func (r *replyBuffer) prompt(ctx context.Context, args []any) *prompt {
	r.text, r.asked = r.text[:0], prompt{redis.NewRawCmd(ctx, args...), r}
	return &r.asked
}

// reply is the reply, wherever it came from.
func (r *replyBuffer) reply() []byte {
	if r.asked.RawCmd != nil {
		if val := r.asked.Val(); len(val) > 0 {
			return val
		}
	}
	return r.text
}

// rangeOf asks for up to count entries of a history, after a version.
func (r *replyBuffer) rangeOf(ctx context.Context, history string, after int64, count int) *prompt {
	from := strconv.FormatInt(after+1, 10) + "-0"
	return r.prompt(ctx, []any{"xrange", &history, from, "+", "count", count})
}

// Write appends a part of a reply.
func (r *replyBuffer) Write(part []byte) (int, error) {
	r.text = append(r.text, part...)
	return len(part), nil
}

// ReadFrom appends a part of a reply whose length is known, as go-redis hands it over.
func (r *replyBuffer) ReadFrom(from io.Reader) (int64, error) {
	part, ok := from.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{r}, from)
	}
	if !r.keeps(int(part.N) - 2) {
		return r.skip(part)
	}
	at, n := len(r.text), int(part.N)
	r.text = grown(r.text, n)
	got, err := io.ReadFull(part.R, r.text[at:])
	part.N -= int64(got)
	return int64(got), err
}

// grown extends a text by n bytes. The capacity doubles because the buffer is reused,
// except for one that is too large to be.
func grown(text []byte, n int) []byte {
	if spare := cap(text); cap(text)-len(text) < n {
		if spare > mostKept {
			spare /= 4
		}
		text = append(make([]byte, 0, cap(text)+spare+n), text...)
	}
	return text[:len(text)+n]
}

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
