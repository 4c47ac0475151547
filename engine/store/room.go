package store

import (
	"context"
	"io"
	"sync"

	"github.com/redis/go-redis/v9"
)

// rooms are memory that replies of streams are read into, again and again. Without
// one go-redis lets a text grow until it holds the reply, which takes five times as
// much of it each time.
type rooms struct{ spare sync.Pool }

// room holds one reply.
type room struct{ text []byte }

// mostKept is how large a room is at most that is used again.
const mostKept = 1 << 20

func (r *rooms) take() *room {
	if kept, ok := r.spare.Get().(*room); ok {
		return kept
	}
	return new(room)
}

// back takes a room back, of which nobody uses anything any more.
func (r *rooms) back(used *room) {
	if cap(used.text) <= mostKept {
		used.text = used.text[:0]
		r.spare.Put(used)
	}
}

// rawReply is a command and, once it was carried out, its reply as Redis has sent it.
type rawReply struct {
	redis.Cmder

	text func() []byte
}

// waiting is a command whose reply is read into a room.
func (r *room) waiting(ctx context.Context, args []any) rawReply {
	return rawReply{redis.NewRawWriteToCmd(ctx, r, args...), func() []byte { return r.text }}
}

// prompt is a command that answers at once, as all do in the simulator: that gives
// no connection to read from.
func prompt(ctx context.Context, args []any) rawReply {
	cmd := redis.NewRawCmd(ctx, args...)
	return rawReply{cmd, cmd.Val}
}

// Write appends a part of a reply.
func (r *room) Write(part []byte) (int, error) {
	r.text = append(r.text, part...)
	return len(part), nil
}

// ReadFrom appends a part of a reply whose length is known, as go-redis hands it over.
func (r *room) ReadFrom(from io.Reader) (int64, error) {
	part, ok := from.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{r}, from)
	}
	at, n := len(r.text), int(part.N)
	r.text = grown(r.text, n)
	got, err := io.ReadFull(part.R, r.text[at:])
	part.N -= int64(got)
	return int64(got), err
}

// grown is a text with room for n bytes more behind it. It doubles, as it is used again.
func grown(text []byte, n int) []byte {
	if cap(text)-len(text) < n {
		text = append(make([]byte, 0, 2*cap(text)+n), text...)
	}
	return text[:len(text)+n]
}
