// Package stream reads, claims, acknowledges and renews entries of the tenants' streams for consumer
// groups, postpones them, trims the streams, and keeps dead letters. An entry stays pending until its
// group acknowledges it. Its keys are a tenant's stream, its dead letters, the operators' commands that
// are queued in the stream, the positions up to which a bridge has read the broker, the owner of the
// bridge, and the hash of crash counts.
package stream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

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
		groups = store.ServiceGroups()
	}
	for _, group := range groups {
		if err := s.makeGroup(ctx, tenant, group); err != nil {
			return err
		}
	}
	return nil
}

func (s Streams) makeGroup(ctx context.Context, tenant, group string) error {
	key := s.keys.Stream(tenant)
	_, err := s.store.WriteEvenIfFull(ctx, key, "xgroup", "create", key, group, "0", "mkstream")
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return store.Failed("make the group "+group, err)
}

// Trim shortens the streams of tenants to about keep entries each, and never to fewer. It removes an
// entry that is older than age by Redis' clock if every group, including those of other programs, has
// acknowledged it and all entries before it. It removes nothing from a stream that lacks one of the
// given groups, by default those of the services. It returns the number of removed entries.
func (s Streams) Trim(ctx context.Context, tenants []string, keep int, age time.Duration, groups ...string) (removed int64, err error) {
	if len(groups) == 0 {
		groups = store.ServiceGroups()
	}
	args := append([]any{max(keep, 0), max(age, 0).Milliseconds()}, wire.Args(groups)...)
	err = s.onEach(ctx, trimScript(), tenants, s.keys.Stream, args, func(tenant string, reply *redis.Cmd) error {
		n, err := reply.Int64()
		removed += n
		return store.Failed("trim the stream of "+tenant, err)
	})
	return removed, err
}

// onEach runs a script on one key of each tenant, many in one round trip, and calls done with each reply.
// It joins all errors.
func (s Streams) onEach(ctx context.Context, script *redis.Script, tenants []string, key func(tenant string) string, args []any,
	done func(tenant string, reply *redis.Cmd) error,
) error {
	for _, tenant := range tenants {
		if err := store.CheckTenant(tenant); err != nil {
			return err
		}
	}
	var errs []error
	for page := range slices.Chunk(tenants, tenantsAtOnce) {
		calls := make([]wire.Call, len(page))
		for i, tenant := range page {
			calls[i] = wire.Call{Keys: []string{key(tenant)}, Args: args}
		}
		replies, _ := s.rdb.RunEach(ctx, script, calls)
		for i, tenant := range page {
			err := done(tenant, replies[i])
			if errs = append(errs, err); store.Down(s.store, err) {
				return errors.Join(errs...)
			}
		}
	}
	return errors.Join(errs...)
}

// SweepConsumers removes a group's consumers that have nothing pending and have been idle for at
// least idle, because their processes are gone. Redis recreates a consumer at its next read.
func (s Streams) SweepConsumers(ctx context.Context, tenants []string, group string, idle time.Duration) error {
	args := []any{group, max(idle, 0).Milliseconds()}
	return s.onEach(ctx, sweepScript(), tenants, s.keys.Stream, args, func(tenant string, reply *redis.Cmd) error {
		return store.Failed("remove consumers of "+group+" of tenant "+tenant, reply.Err())
	})
}
