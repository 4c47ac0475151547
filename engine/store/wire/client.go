// Package wire sends commands to Redis, single or cluster, and parses replies in place. It knows no
// keys and nothing about workflows.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
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

// Endpoint is the network address of one Redis server.
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

// ExceptNil returns the first error of a pipeline, as its Exec returns them, that is not redis.Nil.
// Exec itself returns the first error, which may be a redis.Nil before a lost connection.
func ExceptNil(cmds []redis.Cmder, err error) error {
	if !errors.Is(err, redis.Nil) {
		return err
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// EachPair calls do with each pair that a scan returns, HSCAN a field and its value, ZSCAN a member and
// its score, possibly twice. It stops at the first error.
func EachPair(ctx context.Context, scan *redis.ScanCmd, do func(name, value string) error) error {
	pairs := scan.Iterator()
	for pairs.Next(ctx) {
		name := pairs.Val()
		pairs.Next(ctx) // a page holds whole pairs
		if err := do(name, pairs.Val()); err != nil {
			return err
		}
	}
	return pairs.Err()
}

// Client is a client of Redis.
type Client struct {
	Redis
	Embedded bool // Redis runs inside this process, see store.Options
}

// NewClient returns a Client on an open connection.
func NewClient(rdb Redis) *Client { return &Client{Redis: rdb} }

// Call holds the keys and arguments of a call of a script.
type Call struct {
	Keys []string
	Args []any
}

// RunEach runs a script for several calls in one round trip, and in a second one those that Redis
// rejected since the script was not loaded. Each reply carries its own error; RunEach returns the first.
func (c *Client) RunEach(ctx context.Context, script *redis.Script, calls []Call) (replies []*redis.Cmd, first error) {
	replies = make([]*redis.Cmd, len(calls))
	missing := func(reply *redis.Cmd) bool { return reply == nil || redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") }
	send := func() {
		pipe := c.Pipeline()
		for i, call := range calls {
			if missing(replies[i]) {
				replies[i] = script.EvalSha(ctx, pipe, call.Keys, call.Args...)
			}
		}
		_, _ = pipe.Exec(ctx) // each reply has its error
	}
	send()
	if slices.ContainsFunc(replies, missing) {
		if err := script.Load(ctx, c).Err(); err != nil {
			for _, reply := range replies {
				if missing(reply) {
					reply.SetErr(err)
				}
			}
			return replies, err
		}
		send()
	}
	for _, reply := range replies {
		if first == nil {
			first = reply.Err()
		}
	}
	return replies, first
}

// TimeOf asks the node of a key for its own time, in a pipeline.
func (c *Client) TimeOf(ctx context.Context, pipe redis.Pipeliner, key string) *redis.TimeCmd {
	if !Clustered(c) {
		return pipe.Time(ctx)
	}
	clock := redis.NewTimeCmd(ctx, "time")
	_ = pipe.Process(ctx, keyedTime{clock, key}) // Exec returns the error
	return clock
}

// keyedTime is a command that asks the node of a key for its time.
type keyedTime struct {
	*redis.TimeCmd

	key string
}
