package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// Groups makes consumer groups on a tenant's stream, by default those of the
// services, from its beginning; those that exist stay as they are.
func (s *Store) Groups(ctx context.Context, tenant string, groups ...string) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	if err := s.know(ctx, tenant); err != nil {
		return err
	}
	if len(groups) == 0 {
		groups = []string{WorkerGroup, ExecutorGroup, TimerGroup}
	}
	for _, group := range groups {
		if err := s.group(ctx, tenant, group); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) group(ctx context.Context, tenant, group string) error {
	made := redis.NewStatusCmd(ctx, "xgroup", "create", &s.keysFor(tenant).stream, &group, "0", "mkstream")
	made.SetFirstKeyPos(2) //nolint:mnd // behind the two words
	err := s.rdb.Process(ctx, made)
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil
	}
	return failed("make the group "+group, err)
}

// Reader is who reads what: a consumer of a group, the streams of some tenants.
type Reader struct {
	Group, Consumer string
	Tenants         []string

	// Wants says which events matter; nil: all. Of the others no messages are made.
	Wants func(event.Type) bool
	// Notes, if there are any, tell what was read besides messages.
	Notes *Notes
	// Handled is acknowledged on the way.
	Handled []Handled
	// Often says that it reads again and again, from a connection.
	Often bool
}

// wants reports whether a message is made of an event of a type; of what has none it is.
func (r *Reader) wants(t event.Type) bool { return r.Wants == nil || t == "" || r.Wants(t) }

// pass notes an entry that does not matter to the reader; more is how many may follow.
func (r *Reader) pass(entry Handled, more int) {
	if r.Notes == nil {
		return
	}
	if n := r.Notes; len(n.Unwanted) == cap(n.Unwanted) {
		n.Unwanted = slices.Grow(n.Unwanted, more)
	}
	r.Notes.Unwanted = append(r.Notes.Unwanted, entry)
}

// found notes how many entries a tenant had.
func (r *Reader) found(tenant string, entries int) {
	if r.Notes == nil || entries == 0 {
		return
	}
	if r.Notes.Found == nil {
		r.Notes.Found = r.Notes.one[:0]
	}
	r.Notes.Found = append(r.Notes.Found, Found{tenant, entries})
}

// Notes are what was read besides messages.
type Notes struct {
	Unwanted []Handled // events of other types
	Found    []Found   // in the order of the tenants that had something

	one [1]Found // as it is mostly
}

// Found is how many events of all types were read of a tenant.
type Found struct {
	Tenant string
	Events int
}

// Handled is an entry that means nothing more to a group.
type Handled struct{ Tenant, ID string }

// longestBlock is how long a read waits at most, unless the options say otherwise: a
// connection that says nothing for much longer is taken to be broken.
const longestBlock = 5 * time.Second

// Read delivers new entries, up to count of each tenant. It waits up to block
// for one; with 0 it does not wait. The time is Redis' own after the wait.
func (s *Store) Read(ctx context.Context, r Reader, count int, block time.Duration) ([]Message, time.Time, error) {
	for _, tenant := range r.Tenants {
		if err := CheckTenant(tenant); err != nil {
			return nil, time.Time{}, err
		}
	}
	out, now, err := s.read(ctx, r, count, block)
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		// Somebody removed the group or the stream. What was acknowledged is known
		// to the executions, so reading from the beginning repeats nothing.
		for _, tenant := range r.Tenants {
			if wrong := s.group(ctx, tenant, r.Group); wrong != nil && Temporary(wrong) {
				return nil, now, wrong
			}
		}
		out, now, err = s.read(ctx, r, count, block)
	}
	if err != nil && len(r.Tenants) > 1 && !Temporary(failed("", err)) {
		return s.readEach(ctx, r, count)
	}
	return out, now, failed("read the stream", err)
}

// readEach reads tenant after tenant, so that one whose stream is broken keeps
// nothing from the others. The error comes when there is nothing else.
func (s *Store) readEach(ctx context.Context, r Reader, count int) (out []Message, now time.Time, err error) {
	for _, tenant := range r.Tenants {
		one := r
		one.Tenants = []string{tenant}
		msgs, at, wrong := s.read(ctx, one, count, 0)
		if wrong != nil {
			err = errors.Join(err, failed("read the stream of "+tenant, wrong))
			continue
		}
		out, now = append(out, msgs...), at
	}
	if len(out) > 0 {
		err = nil
	}
	return out, now, err
}

// read acknowledges handled messages and reads the streams in one round trip.
func (s *Store) read(ctx context.Context, r Reader, count int, block time.Duration) ([]Message, time.Time, error) {
	q := s.reading(r)
	defer q.end()
	q.acknowledge(ctx)
	q.ask(ctx, count, block)
	clock := q.time(ctx)
	if err := q.send(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, time.Time{}, err
	}
	now := clock.Val().UTC()
	if text := refusal(q.buffer.reply()); text != "" {
		return nil, now, s.refused(ctx, r, text)
	}
	out, err := q.delivered(now)
	return out, now, err
}

// refused is why a read was refused. The client does not look into raw replies: it
// is shown the same trouble by a command that changes nothing, so that it leaves a
// connection to what is no master any more.
func (s *Store) refused(ctx context.Context, r Reader, text string) error {
	if !strings.HasPrefix(text, "NOGROUP") {
		for _, tenant := range r.Tenants {
			if err := s.rdb.XGroupCreateConsumer(ctx, s.keys.Stream(tenant), r.Group, r.Consumer).Err(); err != nil {
				return err
			}
		}
	}
	return errors.New(text)
}

// Acknowledge acknowledges what a reader is done with.
func (s *Store) Acknowledge(ctx context.Context, r Reader) error {
	if len(r.Handled) == 0 {
		return nil
	}
	q := s.reading(r)
	defer q.end()
	q.acknowledge(ctx)
	return failed("acknowledge", q.send(ctx))
}

// Publish appends an event to its tenant's stream; a command of an operator even if Redis
// is full.
func (s *Store) Publish(ctx context.Context, e event.Event) error {
	if err := CheckTenant(e.Tenant); err != nil {
		return err
	}
	if operated(e.Type) {
		return failed("publish", s.writeEvenIfFull(ctx, "xadd", s.keys.Stream(e.Tenant), append([]any{"*"}, anys(s.fields(e))...)...))
	}
	err := s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: s.keys.Stream(e.Tenant), Values: s.fields(e)}).Err()
	return failed("publish", err)
}
