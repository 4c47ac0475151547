// Package store keeps executions, their histories and definitions in Redis. Each change of an
// execution is one script, so it happens completely or not at all. Keys names every key, including
// those of the packages built on this one: stream, timers, inspect and the others below it.
package store

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

// Errors that callers distinguish.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("exists already")
	ErrEnded       = errors.New("has ended")
	ErrUnreachable = errors.New("redis cannot be reached")
)

// Store reads and writes the data that the services share on one Redis.
type Store struct {
	Codec

	rdb   *wire.Client
	keys  Keys
	block time.Duration // longest time that a read blocks

	registered sync.Map // the tenants that this Store has registered: name → true
}

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	startScript           = scripts.New("skip", "start")
	commitScript          = scripts.New("mine", "moved", "timer_keys", "event", "skip", "commit")
	commandScript         = scripts.New("even_if_full", "command")
	writeEvenIfFullScript = scripts.New("even_if_full", "write_even_if_full")
	forgetScript          = scripts.New("forget")
	unlistScript          = scripts.New("unlist")
	briefScript           = scripts.Reading("brief")
)

// Options of a Store.
type Options struct {
	Cluster bool           // keys carry a hash tag around the tenant, as they always do on a Redis Cluster
	Secrets map[string]any // sealed in everything that is written

	// Embedded: Redis runs inside this process, where reading an event costs less than skipping it.
	Embedded bool

	// Block is the longest time that a read blocks, whatever the caller asks for; 0 means 5 s, which
	// suits clients of Dial.
	Block time.Duration
}

// New returns a Store on an open client.
func New(rdb wire.Redis, opts Options) *Store {
	client := wire.NewClient(rdb)
	client.Embedded = opts.Embedded
	return &Store{
		Codec: Codec{NewSealer(opts.Secrets)}, rdb: client,
		keys: Keys{cluster: opts.Cluster || wire.Clustered(rdb)}, block: cmp.Or(opts.Block, longestBlock),
	}
}

// Redis returns the client that the Store uses.
func (s *Store) Redis() *wire.Client { return s.rdb }

// Keys returns the names of the Store's keys.
func (s *Store) Keys() Keys { return s.keys }

// MaxBlock returns the longest time that a read may block.
func (s *Store) MaxBlock() time.Duration { return s.block }

// longestBlock is the default of Options.Block. A connection that is silent for much longer is
// considered broken.
const longestBlock = 5 * time.Second

// failure is an error of Redis or of the connection to it.
type failure struct {
	op  string
	err error
}

func (f *failure) Error() string {
	if redis.IsOOMError(f.err) {
		return "redis: " + f.op + ": Redis is full: raise its maxmemory, or remove executions"
	}
	text := "redis: " + f.op + ": " + f.err.Error()
	if redis.IsPermissionError(f.err) || strings.Contains(text, "The user executing the script can't") { // a command, or a key
		text += "; 'flunq serve --help' lists the permissions that the user of Redis needs"
	}
	return text
}

func (f *failure) Unwrap() error { return f.err }

// Is reports a connection that failed, a node that does not respond or a cluster that is down as
// ErrUnreachable.
func (f *failure) Is(target error) bool {
	_, network := errors.AsType[*net.OpError](f.err)
	network = network || errors.Is(f.err, os.ErrDeadlineExceeded) || errors.Is(f.err, io.EOF)
	return target == ErrUnreachable && (network || redis.IsClusterDownError(f.err))
}

// Failed wraps an error of Redis or of the connection with what was being done; nil stays nil.
func Failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{op, err}
}

// Temporary reports whether a retry may succeed: the error comes from Redis or from the
// connection, not from the command or the data.
func Temporary(err error) bool {
	if f, ok := errors.AsType[*failure](err); ok {
		return !permanent(f.err)
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Unanswered reports whether the connection failed after a command had been sent, so that it is unknown
// whether Redis has executed it.
func Unanswered(err error) bool {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		return false
	}
	network, ok := errors.AsType[*net.OpError](f.err)
	return ok && network.Op != "dial" || errors.Is(f.err, io.EOF)
}

// Down reports whether no tenant can be served for now, given an error about one of them: it is
// temporary, and the other tenants are on the same Redis. On a cluster they may be on other masters.
func Down(s *Store, err error) bool { return Temporary(err) && !s.Clustered() }

// firstTemporary returns the first temporary error of a pipeline, as its Exec returns them: what a
// command could not read for good is left out, but not what a lost connection did not deliver.
func firstTemporary(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !permanent(err) {
			return err
		}
	}
	if err != nil && !permanent(err) {
		return err
	}
	return nil
}

// permanent reports whether an error of Redis will recur: a key has the wrong type, a command has
// keys of several slots of a cluster, or Redis is a cluster node although the client is not a cluster
// client. Unknown errors count as temporary, since messages given up in an outage would be lost.
func permanent(err error) bool {
	if temporary(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "smaller than the target stream top item") ||
		strings.HasPrefix(text, "CROSSSLOT ") || strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "ASK ")
}

// Now returns Redis' time, which all services share. On a cluster it is that of one of the masters, and
// of another one while that does not respond; for what happens to a tenant, use NowOf.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, err := s.timeAt(ctx, s.keys.Processes())
	if Temporary(err) && s.Clustered() && ctx.Err() == nil {
		return AnyNow(ctx, s)
	}
	return now, err
}

// NowOf returns the time of the Redis node that holds a tenant.
func (s *Store) NowOf(ctx context.Context, tenant string) (time.Time, error) {
	return s.timeAt(ctx, s.keys.Stream(tenant))
}

// AnyNow returns the time of a node that responds: on a cluster, of any master.
func AnyNow(ctx context.Context, s *Store) (now time.Time, err error) {
	err = wire.AnyMaster(ctx, s.rdb.Redis, func(ctx context.Context, master wire.Redis) (err error) {
		now, err = master.Time(ctx).Result()
		return err
	})
	return now.UTC(), Failed("read the time", err)
}

// ClockKey is a key on the node whose time Now returns.
func (s *Store) ClockKey() string { return s.keys.Processes() }

func (s *Store) timeAt(ctx context.Context, key string) (time.Time, error) {
	node, _, err := wire.MasterOf(ctx, s.rdb.Redis, key)
	if err != nil {
		return time.Time{}, Failed("read the time", err)
	}
	now, err := node.Time(ctx).Result()
	return now.UTC(), Failed("read the time", err)
}
