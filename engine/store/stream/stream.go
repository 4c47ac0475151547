// Package stream reads, claims, acknowledges and renews entries of the tenants' streams for consumer
// groups, postpones them, trims the streams, and keeps dead letters. An entry stays pending until its
// group acknowledges it. Its keys are a tenant's stream, its dead letters and the hash of crash
// counts.
package stream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

// Streams reads, claims and acknowledges entries of streams.
type Streams struct {
	store *store.Store
	rdb   *wire.Client
	keys  store.Keys
}

// New returns the streams of a Store.
func New(s *store.Store) Streams { return Streams{store: s, rdb: s.Redis(), keys: s.Keys()} }

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	replyScript       = scripts.New("mine", "event", "skip", "reply")
	acknowledgeScript = scripts.New("owns", "acknowledge")
	claimScript       = scripts.New("even_if_full", "claim")
	renewScript       = scripts.New("renew")
	deadLetterScript  = scripts.New("owns", "dead_letter")
	replayScript      = scripts.New("even_if_full", "replay")
	retryScript       = scripts.New("even_if_full", "owns", "announce_first", "retry")
	replayTimerScript = scripts.New("even_if_full", "announce_first", "replay_timer")
	trimScript        = scripts.New("stream_info", "trim")
	sweepScript       = scripts.New("stream_info", "sweep")
)

// Groups creates consumer groups on a tenant's stream, by default those of the services. They begin
// at its first entry. Existing groups are left unchanged.
func (s Streams) Groups(ctx context.Context, tenant string, groups ...string) error {
	if err := store.CheckTenant(tenant); err != nil {
		return err
	}
	if err := s.store.AddTenant(ctx, tenant); err != nil {
		return err
	}
	if len(groups) == 0 {
		groups = []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup}
	}
	for _, group := range groups {
		if err := s.makeGroup(ctx, tenant, group); err != nil {
			return err
		}
	}
	return nil
}

func (s Streams) makeGroup(ctx context.Context, tenant, group string) error {
	made := redis.NewStatusCmd(ctx, "xgroup", "create", &s.store.TenantKeys(tenant).Stream, &group, "0", "mkstream")
	made.SetFirstKeyPos(2) // after "xgroup create"
	err := s.rdb.Process(ctx, made)
	if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return nil
	}
	return store.Failed("make the group "+group, err)
}

// Reader is a consumer of a group that reads the streams of tenants.
type Reader struct {
	Group, Consumer string
	Tenants         []string

	// Wants reports which events become messages; nil: all.
	Wants func(event.Type) bool
	// ReadInfo, unless nil, receives what was read besides messages.
	ReadInfo *ReadInfo
	// Handled are acknowledged in the same round trip.
	Handled []Handled
	// SkipQuiet leaves out tenants whose streams the group has read completely, until a wire.Tracker
	// reports that there is more, a moment after it is written. Only a cluster needs it.
	SkipQuiet bool
	// Continuous is set by a reader that reads in a loop from a real connection.
	Continuous bool
}

// wants reports whether an entry becomes a message, given its field "type". An entry without a type
// does.
func (r *Reader) wants(typ []byte) bool {
	t := event.Type(typ)
	return r.Wants == nil || t == "" || r.Wants(t)
}

// addUnwanted records an entry that the reader does not want; up to more entries may follow.
func (r *Reader) addUnwanted(entry Handled, more int) {
	if r.ReadInfo == nil {
		return
	}
	if n := r.ReadInfo; len(n.Unwanted) == cap(n.Unwanted) {
		n.Unwanted = slices.Grow(n.Unwanted, more)
	}
	r.ReadInfo.Unwanted = append(r.ReadInfo.Unwanted, entry)
}

// addFound records how many entries of a tenant were read, and their size.
func (r *Reader) addFound(tenant string, entries, bytes int) {
	if r.ReadInfo == nil || entries == 0 {
		return
	}
	if r.ReadInfo.Found == nil {
		r.ReadInfo.Found = r.ReadInfo.one[:0]
	}
	r.ReadInfo.Found = append(r.ReadInfo.Found, Found{tenant, entries, bytes})
}

// ReadInfo describes what was read besides messages.
type ReadInfo struct {
	Unwanted []Handled // events of other types
	Found    []Found   // for each tenant with entries, in order

	one [1]Found // the usual case, without an allocation
}

// Found counts the events of all types that were read for a tenant.
type Found struct {
	Tenant string
	Events int
	Bytes  int // of their entries as Redis sent them
}

// Handled is an entry to be acknowledged.
type Handled struct{ Tenant, ID string }

// Read delivers new entries, up to count for each tenant. It blocks for up to block until there is
// one; with 0 it does not block. The returned time is Redis' own after the read.
func (s Streams) Read(ctx context.Context, r Reader, count int, block time.Duration) ([]store.Message, time.Time, error) {
	for _, tenant := range r.Tenants {
		if err := store.CheckTenant(tenant); err != nil {
			return nil, time.Time{}, err
		}
	}
	if s.keys.Clustered() {
		return s.readSlots(ctx, r, count, block)
	}
	out, now, err := s.read(ctx, r, count, block)
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		// The group or the stream was removed. Executions recognise events that they
		// have handled, so reading from the beginning repeats nothing.
		for _, tenant := range r.Tenants {
			if wrong := s.makeGroup(ctx, tenant, r.Group); wrong != nil && store.Temporary(wrong) {
				return nil, now, wrong
			}
		}
		out, now, err = s.read(ctx, r, count, block)
	}
	if err != nil && len(r.Tenants) > 1 && !store.Temporary(store.Failed("", err)) {
		return s.readEach(ctx, r, count)
	}
	return out, now, store.Failed("read the stream", err)
}

// readEach reads one tenant after the other, so that a broken stream does not block the others. It
// returns an error only if it has read nothing.
func (s Streams) readEach(ctx context.Context, r Reader, count int) (out []store.Message, now time.Time, err error) {
	for _, tenant := range r.Tenants {
		one := r
		one.Tenants = []string{tenant}
		msgs, at, wrong := s.read(ctx, one, count, 0)
		if wrong != nil {
			err = errors.Join(err, store.Failed("read the stream of "+tenant, wrong))
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
func (s Streams) read(ctx context.Context, r Reader, count int, block time.Duration) ([]store.Message, time.Time, error) {
	q := s.reading(r)
	defer q.end()
	q.acknowledge(ctx)
	if len(r.Tenants) > 0 {
		q.readGroup(ctx, q.buffer, count, block, r.Tenants)
	}
	clock := q.trip.Time(ctx)
	if err := q.trip.Send(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, time.Time{}, err
	}
	now := clock.Val().UTC()
	reply := q.buffer.Reply()
	if text := reply.Refusal(); text != "" {
		return nil, now, s.refused(ctx, r, text)
	}
	if _, err := q.delivered(now); err != nil {
		return nil, now, err
	}
	return q.out, now, nil
}

// refused returns why a read was rejected. go-redis does not inspect raw replies, so a harmless
// command makes it see the same error and drop its connection to a Redis that is no longer the
// master.
func (s Streams) refused(ctx context.Context, r Reader, text string) error {
	if !strings.HasPrefix(text, "NOGROUP") {
		for _, tenant := range r.Tenants {
			if err := s.rdb.XGroupCreateConsumer(ctx, s.keys.Stream(tenant), r.Group, r.Consumer).Err(); err != nil {
				return err
			}
		}
	}
	return errors.New(text)
}

// Acknowledge acknowledges the reader's handled entries.
func (s Streams) Acknowledge(ctx context.Context, r Reader) error {
	if len(r.Handled) == 0 {
		return nil
	}
	q := s.reading(r)
	defer q.end()
	q.acknowledge(ctx)
	return store.Failed("acknowledge", q.trip.Send(ctx))
}

// Trim shortens the streams of tenants to about keep entries each, and never to fewer. It removes an
// entry that is older than age by Redis' clock if every group, including those of other programs, has
// acknowledged it and all entries before it. It removes nothing from a stream that lacks one of the
// given groups, by default those of the services. It returns the number of removed entries.
func (s Streams) Trim(ctx context.Context, tenants []string, keep int, age time.Duration, groups ...string) (removed int64, err error) {
	if len(groups) == 0 {
		groups = []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup}
	}
	args := append([]any{max(keep, 0), max(age, 0).Milliseconds()}, wire.Args(groups)...)
	var streams []string
	for _, tenant := range tenants {
		if err := store.CheckTenant(tenant); err != nil {
			return 0, err
		}
		streams = append(streams, s.keys.Stream(tenant))
	}
	err = s.onEach(ctx, trimScript, streams, args, func(stream string, reply *redis.Cmd) error {
		n, err := reply.Int64()
		removed += n
		return store.Failed("trim "+stream, err)
	})
	return removed, err
}

// onEach runs a script on each key, many in one round trip, and calls done with each reply. It
// joins all errors.
func (s Streams) onEach(ctx context.Context, script *redis.Script, keys []string, args []any, done func(key string, reply *redis.Cmd) error) error {
	var errs []error
	for page := range slices.Chunk(keys, tenantsAtOnce) {
		replies, err := s.each(ctx, script, page, args)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i, key := range page {
			err := done(key, replies[i])
			if errs = append(errs, err); store.Temporary(err) {
				return errors.Join(errs...)
			}
		}
	}
	return errors.Join(errs...)
}

// each runs a script on each key in one round trip, and in a second one if Redis has not loaded the
// script yet. It fails only if the script cannot be loaded.
func (s Streams) each(ctx context.Context, script *redis.Script, keys []string, args []any) ([]*redis.Cmd, error) {
	replies := make([]*redis.Cmd, len(keys))
	for known := false; ; known = true {
		pipe := s.rdb.Pipeline()
		for i, key := range keys {
			replies[i] = script.EvalSha(ctx, pipe, []string{key}, args...)
		}
		if _, err := pipe.Exec(ctx); !redis.HasErrorPrefix(err, "NOSCRIPT") || known {
			return replies, nil // each reply carries its own error
		}
		if err := script.Load(ctx, s.rdb).Err(); err != nil {
			return nil, store.Failed("load a script", err)
		}
	}
}

// SweepConsumers removes a group's consumers that have nothing pending and have been idle for at
// least idle, because their processes are gone. Redis recreates a consumer at its next read.
func (s Streams) SweepConsumers(ctx context.Context, tenants []string, group string, idle time.Duration) error {
	var streams []string
	for _, tenant := range tenants {
		if err := store.CheckTenant(tenant); err != nil {
			return err
		}
		streams = append(streams, s.keys.Stream(tenant))
	}
	args := []any{group, max(idle, 0).Milliseconds()}
	return s.onEach(ctx, sweepScript, streams, args, func(stream string, reply *redis.Cmd) error {
		return store.Failed("remove consumers of "+group+" of "+stream, reply.Err())
	})
}
