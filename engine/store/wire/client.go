// Package wire sends commands to Redis, several in one round trip, and parses the replies in place. It
// knows no keys and nothing about workflows.
package wire

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a connection to Redis, or a pool of them. Code outside this package uses it instead of
// *redis.Client: the compiler repeats some 1,700 functions in each package that refers to
// *redis.Client, redis.UniversalClient or redis.Options, even through an inlined function, which
// takes 2 s of CPU (Go 1.26, an atomic.Pointer to a struct that has the methods of all commands).
type Redis interface {
	redis.Cmdable

	// Do sends a command of these arguments.
	Do(ctx context.Context, args ...any) *redis.Cmd
	// Process sends a command and reads its reply into it.
	Process(ctx context.Context, cmd redis.Cmder) error
	// AddHook adds a hook, which sees all commands from now on.
	AddHook(hook redis.Hook)
	// Close closes all connections.
	Close() error
}

// WithTimeout returns rdb with another time limit for answers, if it is a *redis.Client. It shares
// the connections of rdb.
//
//go:noinline
func WithTimeout(rdb Redis, limit time.Duration) Redis {
	if client, ok := rdb.(*redis.Client); ok {
		return client.WithTimeout(limit)
	}
	return rdb
}

// Endpoint is what the client of one Redis connects to.
type Endpoint struct {
	Network, Address string // as for net.Dial
	TLS              *tls.Config
}

// EndpointOf returns the endpoint of a client. A client of a Redis Cluster has none; the address of
// one of Sentinel names no host.
//
//go:noinline
func EndpointOf(rdb Redis) (e Endpoint, ok bool) {
	client, ok := rdb.(*redis.Client)
	if !ok {
		return e, false
	}
	opts := client.Options()
	return Endpoint{opts.Network, opts.Addr, opts.TLSConfig}, true
}

// Silence keeps go-redis from logging to stderr. Its errors are returned anyway.
//
//go:noinline
func Silence() { redis.SetLogger(silent{}) }

// silent is a logger that discards everything.
type silent struct{}

// Printf discards a message.
func (silent) Printf(context.Context, string, ...any) {}

// Client is a client of Redis that reuses pipelines, argument lists and buffers.
type Client struct {
	Redis
	Embedded bool // Redis runs inside this process, see store.Options

	memory    *Memory
	pipelines pipelines
}

// NewClient returns a Client on an open connection. It uses memory, or its own if that is nil.
func NewClient(rdb Redis, memory *Memory) *Client {
	if memory == nil {
		memory = new(Memory)
	}
	return &Client{Redis: rdb, memory: memory}
}

// Memory holds what Clients reuse: nothing in it outlives a call. The Clients of a program may share
// it.
//
// It is not part of a Client, because the runtime keeps a pool until the second garbage collection
// after its last use, and would keep the Client and everything that it refers to as well. The
// simulator makes thousands of Clients per second.
type Memory struct {
	buffers sync.Pool // of *Buffer
	trips   sync.Pool // of *Trip
}

// Trip is a batch of commands that are sent together.
type Trip struct {
	client *Client
	cmds   []redis.Cmder
	args   []any          // of all commands
	from   int            // where those of the next command begin
	clock  *redis.TimeCmd // reused, since nearly every trip asks for Redis' time
}

// Trip starts a batch. End gives its memory back.
func (c *Client) Trip() *Trip {
	t, ok := c.memory.trips.Get().(*Trip)
	if !ok {
		t = new(Trip)
	}
	t.client = c
	return t
}

// Arg adds arguments to those that Args returns next. Pass pointers to strings instead of strings,
// which would each be allocated again.
func (t *Trip) Arg(args ...any) { t.args = append(t.args, args...) }

// Args returns the arguments of a command, those added by Arg and these, in the memory of the trip.
func (t *Trip) Args(args ...any) []any {
	t.args = append(t.args, args...)
	from := t.from
	t.from = len(t.args)
	return t.args[from:t.from:t.from]
}

// Add adds a command.
func (t *Trip) Add(cmd redis.Cmder) { t.cmds = append(t.cmds, cmd) }

// Time asks for Redis' own time, to be read before the trip ends.
func (t *Trip) Time(ctx context.Context) *redis.TimeCmd {
	if t.clock == nil {
		t.clock = redis.NewTimeCmd(context.WithoutCancel(ctx), "time")
	}
	t.clock.SetErr(nil)
	t.clock.SetVal(time.Time{})
	t.Add(t.clock)
	return t.clock
}

// TimeOf asks the node of a key for its own time, to be read before the trip ends.
func (t *Trip) TimeOf(ctx context.Context, key string) *redis.TimeCmd {
	clock := redis.NewTimeCmd(context.WithoutCancel(ctx), "time")
	if Clustered(t.client) {
		t.Add(keyedTime{clock, key})
	} else {
		t.Add(clock)
	}
	return clock
}

// keyedTime is a command that asks the node of a key for its time.
type keyedTime struct {
	*redis.TimeCmd

	key string
}

// Send sends the commands and reads their replies. It returns the first error.
func (t *Trip) Send(ctx context.Context) error {
	pipe := t.client.pipelines.take(t.client)
	defer t.client.pipelines.put(pipe)
	_ = pipe.BatchProcess(ctx, t.cmds...) // Exec returns the error
	_, err := pipe.Exec(ctx)
	return err
}

// maxArguments is the number of arguments above which a trip's memory is not reused.
const maxArguments = 20_000

// End gives the memory back. The trip and its arguments must not be used afterwards.
func (t *Trip) End() {
	memory := t.client.memory
	clear(t.cmds)
	clear(t.args)
	t.client, t.cmds, t.args, t.from = nil, t.cmds[:0], t.args[:0], 0
	if cap(t.args) <= maxArguments {
		memory.trips.Put(t)
	}
}

// pipelines holds the idle pipelines of a Client. They refer to the Client, so a sync.Pool would keep
// it in memory.
type pipelines struct {
	mu   sync.Mutex
	idle []redis.Pipeliner
}

func (p *pipelines) take(c *Client) redis.Pipeliner {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return c.Pipeline()
	}
	pipe := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return pipe
}

func (p *pipelines) put(pipe redis.Pipeliner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, pipe)
}
