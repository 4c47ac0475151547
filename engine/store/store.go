// Package store keeps histories, streams, timers and dead letters in Redis. It
// is the only one that knows a key or a script; each change of an execution is
// one script, so that there is no moment between two commands.
package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Errors that callers tell apart.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("exists already")
	ErrUnreachable = errors.New("redis cannot be reached")
)

// Store is what the services share, on one Redis.
type Store struct {
	rdb    redis.UniversalClient
	keys   keys
	sealer *Sealer
}

// Options of a Store.
type Options struct {
	Cluster bool           // keys carry a hash tag around the tenant
	Secrets map[string]any // sealed wherever they appear in what is written
}

// New is a Store on an open client.
func New(rdb redis.UniversalClient, opts Options) *Store {
	return &Store{rdb: rdb, keys: keys{cluster: opts.Cluster}, sealer: NewSealer(opts.Secrets)}
}

// Dial opens a client as the services need it: one that repeats no write behind
// their back. The address is redis://, rediss:// or host:port. A Redis that does
// not answer is ErrUnreachable.
func Dial(ctx context.Context, address string) (*redis.Client, error) {
	opts, err := clientOptions(address)
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(opts)
	if err := rdb.Ping(ctx).Err(); err != nil {
		// The error of the ping says more than one of closing could.
		_ = rdb.Close()
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, masked(address), err)
	}
	return rdb, nil
}

func clientOptions(address string) (*redis.Options, error) {
	if !strings.Contains(address, "://") {
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(address, "6379")
		}
		address = "redis://" + address
	}
	opts, err := redis.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("redis address %s: want redis://host:port/db, rediss:// or host:port", masked(address))
	}
	if opts.TLSConfig != nil {
		opts.TLSConfig.MinVersion = tls.VersionTLS12
	}
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.PipelinePoolSize = -1
	opts.DisableIdentity = true
	opts.ReadTimeout = 2 * longestBlock
	if opts.PoolSize == 0 {
		opts.PoolSize = connections
	}
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts, nil
}

// connections is how many a client may open: more than there are service
// instances in a process, each of which may be waiting in a read.
const connections = 256

// masked hides the password of an address.
func masked(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "***" + rest[at:]
	}
	return scheme + "://" + rest
}

// failure is an error that Redis is to blame for, or the way to it.
type failure struct {
	op  string
	err error
}

func (f *failure) Error() string { return "redis: " + f.op + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed wraps an error of an operation; nil stays nil.
func failed(op string, err error) error {
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
	text := err.Error()
	return strings.Contains(text, "WRONGTYPE") || strings.Contains(text, "smaller than the target stream top item")
}

// Now is Redis' own time, by which all services agree.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, err := s.rdb.Time(ctx).Result()
	return now.UTC(), failed("read the time", err)
}
