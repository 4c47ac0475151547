package store

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// roundTrip is commands that are sent at once, on a pipeline and in lists that are
// used again.
type roundTrip struct {
	store *Store
	cmds  []redis.Cmder
	args  []any          // of all commands
	clock *redis.TimeCmd // for Redis' own time, which nearly all ask for
}

func (s *Store) roundTrip() *roundTrip {
	t, ok := s.memory.trips.Get().(*roundTrip)
	if !ok {
		t = &roundTrip{}
	}
	t.store = s
	return t
}

// list is the arguments of a command. Texts are best given by their addresses: each
// would be put into a box otherwise.
func (t *roundTrip) list(args ...any) []any {
	from := len(t.args)
	t.args = append(t.args, args...)
	return t.args[from:len(t.args):len(t.args)]
}

// add takes up a command.
func (t *roundTrip) add(cmd redis.Cmder) { t.cmds = append(t.cmds, cmd) }

// time asks for Redis' own time, which is to be read before the trip ends.
func (t *roundTrip) time(ctx context.Context) *redis.TimeCmd {
	if t.clock == nil {
		t.clock = redis.NewTimeCmd(context.WithoutCancel(ctx), "time")
	}
	t.clock.SetErr(nil)
	t.clock.SetVal(time.Time{})
	t.add(t.clock)
	return t.clock
}

// send has the commands carried out. An error is the first of theirs.
func (t *roundTrip) send(ctx context.Context) error {
	pipe := t.store.pipe()
	defer t.store.pipes.back(pipe)
	_ = pipe.BatchProcess(ctx, t.cmds...) // Exec says what is wrong
	_, err := pipe.Exec(ctx)
	return err //nolint:wrapcheck // whoever asks says for what
}

// forget makes it ready for other commands. It reports false if it has become much
// larger than most.
func (t *roundTrip) forget() bool {
	clear(t.cmds)
	clear(t.args)
	t.store, t.cmds, t.args = nil, t.cmds[:0], t.args[:0]
	return cap(t.args) <= mostArguments
}

// end gives a round trip back, of which nobody uses anything any more.
func (t *roundTrip) end() {
	if memory := t.store.memory; t.forget() {
		memory.trips.Put(t)
	}
}

// pipes are pipelines that nobody uses. See Memory for why they are no sync.Pool.
type pipes struct {
	mu   sync.Mutex
	idle []redis.Pipeliner
}

func (s *Store) pipe() redis.Pipeliner {
	s.pipes.mu.Lock()
	defer s.pipes.mu.Unlock()
	n := len(s.pipes.idle)
	if n == 0 {
		return s.rdb.Pipeline()
	}
	pipe := s.pipes.idle[n-1]
	s.pipes.idle = s.pipes.idle[:n-1]
	return pipe
}

func (p *pipes) back(pipe redis.Pipeliner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, pipe)
}

// Memory is what Stores work in, and give back once they are done with it: nothing in
// it outlives a call. Those of one program may share it.
//
// It is no part of a Store: the runtime keeps a pool until the second collection of
// garbage after its last use, and would keep the Store with it, and all that this refers
// to. The simulator makes thousands of Stores in a second.
type Memory struct {
	bufferPool bufferPool
	trips      sync.Pool // of *roundTrip
	readings   sync.Pool // of *reading
}
