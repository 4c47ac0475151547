// Package store keeps executions, their histories and definitions in Redis. Each change of an
// execution is one script, so it happens completely or not at all. Keys names every key, also
// those that the packages built on this one work with: stream, timers and inspect.
package store

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// Errors that callers tell apart.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("exists already")
	ErrUnreachable = errors.New("redis cannot be reached")
)

// Store is what the services share, on one Redis.
type Store struct {
	Codec

	rdb            *wire.Client
	keys           Keys
	tenantKeyCache tenantKeyCache
	block          time.Duration // the longest that a read waits
}

// Options of a Store.
type Options struct {
	Cluster bool           // keys carry a hash tag around the tenant
	Secrets map[string]any // sealed wherever they appear in what is written

	// Memory is what the Store works in; nil: its own.
	Memory *wire.Memory

	// Block is the longest that a read waits, whatever it is asked for; 5 s if 0, which is
	// what the clients of Open are made for.
	Block time.Duration
}

// New is a Store on an open client.
func New(rdb wire.Redis, opts Options) *Store {
	return &Store{
		Codec: Codec{NewSealer(opts.Secrets)}, rdb: wire.NewClient(rdb, opts.Memory),
		keys: Keys{cluster: opts.Cluster}, block: cmp.Or(opts.Block, longestBlock),
	}
}

// Redis is the client that the Store works with.
func (s *Store) Redis() *wire.Client { return s.rdb }

// Keys are the names of the Store's keys.
func (s *Store) Keys() Keys { return s.keys }

// MaxBlock is the longest that a read may wait.
func (s *Store) MaxBlock() time.Duration { return s.block }

// longestBlock is how long a read waits at most, unless the options say otherwise: a
// connection that is silent for much longer is taken to be broken.
const longestBlock = 5 * time.Second

// failure is an error that Redis is to blame for, or the way to it.
type failure struct {
	op  string
	err error
}

func (f *failure) Error() string { return "redis: " + f.op + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Failed wraps an error of Redis, or of the way to it, with what was being done; nil stays nil.
func Failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{op, err}
}

// Temporary reports whether an error may go away when the same is done again:
// one of Redis or of the way to it, and not of what was asked or of what it is
// asked of.
func Temporary(err error) bool {
	if f, ok := errors.AsType[*failure](err); ok {
		return !lasting(f.err)
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// lasting reports whether Redis will say the same each time: a key is not what it
// should be. All that is not known to last is taken to pass, since what is given
// up for an outage is lost.
func lasting(err error) bool {
	if temporary(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "smaller than the target stream top item")
}

// Now is Redis' own time, by which all services agree.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, err := s.rdb.Time(ctx).Result()
	return now.UTC(), Failed("read the time", err)
}

// Publish appends an event to its tenant's stream; a command of an operator even if Redis
// is full.
func (s *Store) Publish(ctx context.Context, e event.Event) error {
	if err := CheckTenant(e.Tenant); err != nil {
		return err
	}
	if ahead(e.Type) {
		return s.command(ctx, e)
	}
	if operated(e.Type) {
		return Failed("publish", s.writeEvenIfFull(ctx, "xadd", s.keys.Stream(e.Tenant), append([]any{"*"}, wire.Args(s.Fields(e))...)...))
	}
	err := s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: s.keys.Stream(e.Tenant), Values: s.Fields(e)}).Err()
	return Failed("publish", err)
}
