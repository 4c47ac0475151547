package store

import (
	"context"
	"io"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// bufferPool are memory that replies of streams are read into, again and again. Without
// one go-redis lets a text grow until it holds the reply, which takes five times as
// much of it each time.
type bufferPool struct{ spare sync.Pool }

// replyBuffer holds one reply.
type replyBuffer struct {
	text  []byte
	asked prompt // for it; nothing if it is waited for
	left  leaving
}

// mostKept is how large a room is at most that is used again.
const mostKept = 1 << 20

func (r *bufferPool) take() *replyBuffer {
	if kept, ok := r.spare.Get().(*replyBuffer); ok {
		return kept
	}
	return new(replyBuffer)
}

// several are rooms for so many replies.
func (r *bufferPool) several(n int) []*replyBuffer {
	out := make([]*replyBuffer, n)
	for i := range out {
		out[i] = r.take()
	}
	return out
}

// back takes rooms back, of which nobody uses anything any more.
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

// waiting is a command whose reply is read into a room.
func (r *replyBuffer) waiting(ctx context.Context, args []any) redis.Cmder {
	return redis.NewRawWriteToCmd(ctx, r, args...)
}

// prompt is a command that answers at once, as all do in the simulator: that gives
// no connection to read from, and writes into the room itself.
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

// grown is a text with room for n bytes more behind it. It doubles, as it is used again,
// but for one so large that it is not.
func grown(text []byte, n int) []byte {
	if spare := cap(text); cap(text)-len(text) < n {
		if spare > mostKept {
			spare /= 4
		}
		text = append(make([]byte, 0, cap(text)+spare+n), text...)
	}
	return text[:len(text)+n]
}
