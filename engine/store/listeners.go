package store

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// Listeners returns the executions that listen for events of a type, or of any type, sorted.
func (s *Store) Listeners(ctx context.Context, tenant, eventType string) (all []string, err error) {
	err = s.EachListener(ctx, tenant, eventType, func(id string) error {
		all = append(all, id)
		return nil
	})
	return compacted(all), err
}

// listenerPage is the approximate number of listeners per read.
const listenerPage = 500

// EachListener calls do at least once with each listener that listens throughout, and possibly with
// others, page by page. It stops at the first error.
func (s *Store) EachListener(ctx context.Context, tenant, eventType string, do func(id string) error) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	left := []listening{{key: s.keys.Listeners(tenant, eventType)}, {key: s.keys.Listeners(tenant, "*")}}
	for len(left) > 0 {
		pipe := s.rdb.Pipeline()
		for i := range left {
			left[i].page = pipe.SScan(ctx, left[i].key, left[i].cursor, "", listenerPage)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return Failed("read who listens for "+eventType, err)
		}
		var ids []string
		for i := range left {
			page, next := left[i].page.Val()
			ids, left[i].cursor = append(ids, page...), next
		}
		for _, id := range compacted(ids) {
			if err := do(id); err != nil {
				return err
			}
		}
		left = slices.DeleteFunc(left, func(l listening) bool { return l.cursor == 0 })
	}
	return nil
}

// listening is an iteration over a set of listeners.
type listening struct {
	key    string
	cursor uint64
	page   *redis.ScanCmd
}

// Listener is an execution that listens for a type of events, "*" for any.
type Listener struct{ Execution, Type string }

// Listed reports for each listener of a tenant whether it is in the set of its type.
func (s *Store) Listed(ctx context.Context, tenant string, listeners []Listener) ([]bool, error) {
	if err := CheckTenant(tenant); err != nil || len(listeners) == 0 {
		return nil, err
	}
	pipe := s.rdb.Pipeline()
	listed := make([]*redis.BoolCmd, len(listeners))
	for i, l := range listeners {
		listed[i] = pipe.SIsMember(ctx, s.keys.Listeners(tenant, l.Type), l.Execution)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, Failed("read the lists of listeners", err)
	}
	out := make([]bool, len(listeners))
	for i := range listed {
		out[i] = listed[i].Val()
	}
	return out, nil
}

// ListedFor returns the event types that an execution is listed for, sorted. It scans all keys of
// the database, so it is for rare cases.
func (s *Store) ListedFor(ctx context.Context, tenant, id string) ([]string, error) {
	prefix := s.keys.Listeners(tenant, "")
	found := map[string]bool{}
	node, _, err := wire.MasterOf(ctx, s.rdb.Redis, prefix)
	if err == nil {
		pages := math.MaxInt
		err = eachPage(ctx, node, prefix+"*", "set", &pages, func(keys []string) error {
			pipe := s.rdb.Pipeline()
			listed := make([]*redis.BoolCmd, len(keys))
			for i, key := range keys {
				listed[i] = pipe.SIsMember(ctx, key, id)
			}
			_, err := pipe.Exec(ctx)
			for i, key := range keys {
				if listed[i].Val() {
					found[strings.TrimPrefix(key, prefix)] = true
				}
			}
			return err
		})
	}
	if err != nil {
		return nil, Failed("find what "+id+" listens for", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}
