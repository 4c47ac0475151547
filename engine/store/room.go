package store

import (
	"context"
	"io"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// room is memory that replies of streams are read into, again and again. Without one
// go-redis lets a text grow until it holds the reply, which takes five times as much of
// it each time.
type room struct{ text []byte }

// rooms are those that nobody uses. One pool serves all stores: a pool is kept by the
// runtime until the second collection of garbage after its last use, and with it would
// be the store that it is a part of, and all that this refers to. The simulator makes
// thousands of them in a second.
//
//nolint:gochecknoglobals // a pool of what is empty
var rooms sync.Pool

// mostKept is how large a room is at most that is used again.
const mostKept = 1 << 20

func takeRoom() *room {
	if kept, ok := rooms.Get().(*room); ok {
		return kept
	}
	return new(room)
}

// takeRooms are rooms for so many replies.
func takeRooms(n int) []*room {
	out := make([]*room, n)
	for i := range out {
		out[i] = takeRoom()
	}
	return out
}

// leaveRooms takes rooms back, of which nobody uses anything any more.
func leaveRooms(used ...*room) {
	for _, one := range used {
		if cap(one.text) <= mostKept {
			one.text = one.text[:0]
			rooms.Put(one)
		}
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
// no connection to read from, and writes into the room itself.
type prompt struct {
	*redis.RawCmd

	room *room
}

// Room is where a Redis inside the process puts its reply.
func (p prompt) Room() *[]byte { return &p.room.text }

// reply is the reply, wherever it came from.
func (p prompt) reply() []byte {
	if val := p.Val(); len(val) > 0 {
		return val
	}
	return p.room.text
}

// prompt is such a command.
func (r *room) prompt(ctx context.Context, args []any) prompt {
	r.text = r.text[:0]
	return prompt{redis.NewRawCmd(ctx, args...), r}
}

// rangeOf asks for up to count entries of a history, after a version.
func (r *room) rangeOf(ctx context.Context, history string, after int64, count int) prompt {
	from := strconv.FormatInt(after+1, 10) + "-0"
	return r.prompt(ctx, []any{"XRANGE", history, from, "+", "COUNT", count})
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
