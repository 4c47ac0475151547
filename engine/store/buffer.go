package store

import (
	"context"
	"io"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

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
