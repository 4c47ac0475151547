package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Buffer holds one reply, and is reused. By itself, go-redis would grow a string until it holds the
// reply, which takes five times as much memory each time.
type Buffer struct {
	text    []byte
	command Cmd      // the command, unless StreamCmd returned it
	skipped skipping // values that are left out of the reply
	entry   Entry
}

// maxKept is the capacity in bytes above which a buffer is not reused.
const maxKept = 1 << 20

// fewSpans is the number of names and values that most entries do not exceed.
const fewSpans = 32

// buffers holds the buffers that can be reused.
//
//nolint:gochecknoglobals // a pool
var buffers = sync.Pool{New: func() any { return &Buffer{entry: Entry{fields: make([]span, 0, fewSpans)}} }}

// NewBuffer returns an empty buffer, which the caller gives back with Return.
func NewBuffer() *Buffer {
	b, _ := buffers.Get().(*Buffer) // nothing else is in there
	return b
}

// NewBuffers returns n empty buffers.
func NewBuffers(n int) []*Buffer {
	out := make([]*Buffer, n)
	for i := range out {
		out[i] = NewBuffer()
	}
	return out
}

// Return gives buffers back for reuse. The caller must no longer use them.
func Return(used ...*Buffer) {
	for _, b := range used {
		b.text, b.command, b.skipped = b.text[:0], Cmd{}, skipping{values: b.skipped.values[:0]}
		b.entry.reply = nil
		if cap(b.text) <= maxKept {
			buffers.Put(b)
		}
	}
}

// Entry returns the entry into which the entries of the reply can be read, one at a time.
func (b *Buffer) Entry() *Entry { return &b.entry }

// Cmd is a command that does not block. In the simulator, which has no connection to read from, its
// reply is written directly into the buffer.
type Cmd struct {
	*redis.RawCmd

	buffer *Buffer
}

// Buffer returns where the Redis of a simulation puts its reply.
func (c *Cmd) Buffer() *[]byte { return &c.buffer.text }

// Cmd returns a command whose reply the buffer holds.
func (b *Buffer) Cmd(ctx context.Context, args []any) *Cmd {
	b.text, b.command = b.text[:0], Cmd{redis.NewRawCmd(ctx, args...), b}
	return &b.command
}

func (c *Cmd) reply() Reply { return c.buffer.Reply() }

// reset makes room for another reply.
func (c *Cmd) reset() {
	c.buffer.text = c.buffer.text[:0]
	c.SetVal(nil)
}

// streamCmd is the command that StreamCmd returns.
type streamCmd struct {
	*redis.RawWriteToCmd

	buffer *Buffer
}

func (c streamCmd) reply() Reply { return Reply{text: c.buffer.text} }

func (c streamCmd) reset() {
	c.buffer.text, c.buffer.skipped.values, c.buffer.skipped.large = c.buffer.text[:0], c.buffer.skipped.values[:0], 0
}

// StreamCmd returns a command whose reply is copied from the connection into the buffer as it
// arrives. It skips values that are too large, and values above largeValue bytes in entries that do
// not matter: matters decides by the value of an entry's field "type". If it is nil, all entries
// matter.
func (b *Buffer) StreamCmd(ctx context.Context, args []any, matters func(typ []byte) bool) redis.Cmder {
	b.skipped = skipping{on: true, matters: matters, values: b.skipped.values[:0]}
	return streamCmd{redis.NewRawWriteToCmd(ctx, b, args...), b}
}

// Reply returns the reply to the command.
func (b *Buffer) Reply() Reply {
	if b.command.RawCmd != nil {
		if val := b.command.Val(); len(val) > 0 {
			return Reply{text: val}
		}
	}
	return Reply{text: b.text}
}

// Write appends a part of a reply.
func (b *Buffer) Write(part []byte) (int, error) {
	b.text = append(b.text, part...)
	return len(part), nil
}

// ReadFrom appends a part of a reply whose length is known, as go-redis hands it over.
func (b *Buffer) ReadFrom(from io.Reader) (int64, error) {
	part, ok := from.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{b}, from)
	}
	if !b.keeps(int(part.N) - 2) {
		return b.skip(part)
	}
	at, n := len(b.text), int(part.N)
	b.text = grown(b.text, n)
	got, err := io.ReadFull(part.R, b.text[at:])
	part.N -= int64(got)
	return int64(got), err
}

// grown extends text by n bytes. The capacity doubles because the buffer is reused, unless it is too
// large for that.
func grown(text []byte, n int) []byte {
	if spare := cap(text); cap(text)-len(text) < n {
		if spare > maxKept {
			spare /= 4
		}
		text = append(make([]byte, 0, cap(text)+spare+n), text...)
	}
	return text[:len(text)+n]
}

// Limits on the large values in one reply, which anyone may have sent. Values above them are dropped
// as they arrive; an entry that matters is read again by itself when there is memory for it.
const (
	largeValue  = 64 << 10
	LargeBudget = 32 << 20 // bytes of large values in the reply to one read
	MaxValue    = 64 << 20 // bytes of one value (limit event-value)
)

// skipping says which values are left out of a reply to a stream read.
type skipping struct {
	on      bool
	matters func(typ []byte) bool
	large   int // bytes of large values so far
	values  []skippedValue
}

// skippedValue is a value that was dropped; only its length is known.
type skippedValue struct{ at, bytes int }

// keeps reports whether the next value, of n bytes, is kept.
func (b *Buffer) keeps(n int) bool {
	s := &b.skipped
	if !s.on || n <= largeValue {
		return true
	}
	if n > MaxValue || s.large > 0 && s.large+n > LargeBudget {
		return false
	}
	if typ := lastType(b.text); len(typ) > 0 && s.matters != nil && !s.matters(typ) {
		return false
	}
	s.large += n
	return true
}

// lastType returns the type of the entry whose value comes next, if the type comes first, as it does
// in entries of the engine.
func lastType(text []byte) []byte {
	const name = "\r\n$4\r\ntype\r\n$"
	at := bytes.LastIndex(text, []byte(name))
	if at < 0 {
		return nil
	}
	length, rest, _ := bytes.Cut(text[at+len(name):], []byte("\r\n"))
	n, err := strconv.Atoi(string(length))
	if err != nil || n < 0 || n > len(rest) {
		return nil
	}
	return rest[:n]
}

// skip drops a value and writes a short placeholder instead.
func (b *Buffer) skip(part *io.LimitedReader) (int64, error) {
	n := int(part.N)
	got, err := io.Copy(io.Discard, part)
	if err != nil || int(got) != n {
		return got, err
	}
	instead := strconv.Itoa(n-2) + " bytes were left out"
	b.text = b.text[:bytes.LastIndexByte(b.text, '$')] // without the line with its length
	b.skipped.values = append(b.skipped.values, skippedValue{at: len(b.text), bytes: n - 2})
	b.text = append(b.text, "$"+strconv.Itoa(len(instead))+"\r\n"+instead+"\r\n"...)
	return got, nil
}

// Skipped returns the size in bytes of the largest value that was left out of an entry, or 0 if the
// entry is complete.
func (b *Buffer) Skipped(e *Entry) (most int) {
	for _, v := range b.skipped.values {
		if v.at >= e.whole.from && v.at < e.whole.to {
			most = max(most, v.bytes)
		}
	}
	return most
}

// TooLarge returns the error for an entry with a value of n bytes.
func TooLarge(n int) error {
	return fmt.Errorf("the entry has a value of %d bytes, more than %d MiB (limit event-value)", n, MaxValue>>20)
}
