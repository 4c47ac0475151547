// Package dev implements the Redis of flunq dev: miniredis on a loopback port with a data
// file and a clock that can be advanced.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/mini"
)

// Options configure a Redis.
type Options struct {
	Port   int       // on 127.0.0.1; 0: any free port
	Mode   Mode      // of the clock; "": that of the data file, otherwise real
	Start  time.Time // of a virtual clock; zero: now
	Data   string    // the data file; "": none
	Groups []string  // the consumer groups that an advance waits for
}

// Mode is the mode of a clock.
type Mode string

// The modes of a clock.
const (
	Real    Mode = "real"    // that of the machine
	Virtual Mode = "virtual" // runs at real speed, can be paused and advanced
)

// Redis is a Redis inside this process. The caller must Close it.
type Redis struct {
	opts  Options
	mini  *mini.Server
	clock *clock
	rdb   wire.Redis // for the commands of this package
	store *store.Store

	ctx    context.Context //nolint:containedctx // of long commands: it ends with Close
	cancel context.CancelFunc
	moving sync.Mutex // held during an advance

	publish func(context.Context) (published, dead int, next time.Time, err error) // see Publish; may be nil

	lock   lock // of the data file
	saving sync.Mutex
	saved  [32]byte      // hash of the content of the data file
	stamp  stamp         // of the file when it was last read or written
	last   time.Time     // of the last save
	took   time.Duration // duration of the last save

	changed atomic.Bool // data may have changed since the last save
	began   time.Time

	listener net.Listener
}

// ErrTaken is wrapped by errors about a port that another program uses.
var ErrTaken = errors.New("the port is in use")

// ErrUsed is wrapped by errors about a data file that another flunq dev uses.
var ErrUsed = errors.New("the data file is in use")

// Open starts a Redis with the content of its data file, which no other process may use until Close.
func Open(ctx context.Context, opts Options) (*Redis, error) {
	lock, err := lockData(opts.Data)
	if err != nil {
		return nil, err
	}
	r, err := open(ctx, opts)
	if err != nil {
		lock.release()
		return nil, err
	}
	r.lock = lock
	return r, nil
}

func open(ctx context.Context, opts Options) (*Redis, error) {
	stamp := stampOf(opts.Data)
	kept, err := load(opts.Data)
	if err != nil {
		return nil, err
	}
	if err := opts.settle(kept); err != nil {
		return nil, err
	}
	r := &Redis{opts: opts, stamp: stamp, began: time.Now()}
	if r.mini, err = mini.New(); err != nil {
		return nil, err
	}
	r.clock = newClock(r.mini.Miniredis, opts.Mode, opts.Start, kept.Clock != nil && kept.Clock.Paused)
	r.mini.Before = r.before
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := r.start(ctx, kept); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// start listens, and restores the data.
func (r *Redis) start(ctx context.Context, kept file) (err error) {
	if err := r.listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(r.opts.Port))); err != nil {
		return err
	}
	if r.rdb, err = store.Dial(ctx, r.URL()); err != nil {
		return err
	}
	r.store = store.New(r.rdb, store.Options{})
	if err := r.mini.Server().Register(Command, r.command); err != nil {
		return err
	}
	if err := r.restore(ctx, kept); err != nil {
		return fmt.Errorf("%s: %w", r.opts.Data, err)
	}
	return nil
}

// before is called before every command of a client. It updates the time of miniredis and notes
// whether the command may change data.
func (r *Redis) before(cmd string, args []string) {
	r.clock.tick()
	switch cmd {
	case "XREADGROUP", "TIME", "PING", "HELLO", "CLIENT", Command: // idle services send these
	default:
		heartbeat := len(args) > 0 && args[0] == store.ProcessesKey
		if !heartbeat && !r.mini.Server().IsReadOnlyCommand(cmd) {
			r.changed.Store(true)
		}
	}
}

// settle determines the clock. A saved clock continues from its time.
func (o *Options) settle(kept file) error {
	if kept.Clock == nil {
		o.Mode = cmp.Or(o.Mode, Real)
		if o.Start.IsZero() {
			o.Start = time.Now()
		}
		if o.Start.Before(kept.Saved) && o.Mode == Virtual {
			return fmt.Errorf("%s was saved at %s: its clock cannot start before that", o.Data, kept.Saved.Format(time.RFC3339Nano))
		}
		return nil
	}
	at := kept.Clock.Now.Format(time.RFC3339Nano)
	switch {
	case o.Mode == Real && kept.Clock.Now.After(time.Now()):
		return fmt.Errorf("the virtual clock of %s is at %s, in the future: use --clock virtual", o.Data, at)
	case o.Mode != Real && o.Start.After(kept.Clock.Now):
		return fmt.Errorf("the clock of %s is at %s: omit --start and advance the clock", o.Data, at)
	case o.Mode != Real && !o.Start.IsZero() && o.Start.Before(kept.Clock.Now):
		return fmt.Errorf("the clock of %s is at %s, and time cannot go back", o.Data, at)
	}
	o.Mode = cmp.Or(o.Mode, Virtual)
	o.Start = kept.Clock.Now
	return nil
}

// URL returns the address of the Redis.
func (r *Redis) URL() string { return "redis://" + r.listener.Addr().String() }

// Clock returns the state of the clock.
func (r *Redis) Clock() Clock {
	c := r.clock.show()
	c.PID, c.Started = os.Getpid(), r.began.UTC()
	return c
}

// Sleep waits until the clock has advanced by d.
func (r *Redis) Sleep(ctx context.Context, d time.Duration) error { return r.clock.sleep(ctx, d) }

// Publish makes each advance stop at scheduled events. It calls f to publish those that are due:
// f returns how many it has published, how many became dead, and when the next one is due, zero if there
// is none.
func (r *Redis) Publish(f func(context.Context) (published, dead int, next time.Time, err error)) {
	r.moving.Lock()
	defer r.moving.Unlock()
	r.publish = f
}

// Moving reports whether a client is moving the clock.
func (r *Redis) Moving() bool {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	return r.clock.moving
}

// Close stops the Redis. Unsaved data is lost.
func (r *Redis) Close() {
	r.cancel()
	if r.rdb != nil {
		_ = r.rdb.Close()
	}
	if r.listener != nil {
		_ = r.listener.Close()
	}
	r.mini.Close()
	r.lock.release()
}
