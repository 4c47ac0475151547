package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Unlisted are the executions of tenants that stand in no list, as those of old
// deployments: they are carried on when something happens to them, but nobody sees
// them. It looks at all keys, at most so many times at a thousand; complete says
// whether that was enough.
func (s *Store) Unlisted(ctx context.Context, tenants []string, looks int) (found map[string][]string, complete bool, err error) {
	if len(tenants) == 0 {
		return nil, true, nil
	}
	wanted := map[string]bool{}
	for _, tenant := range tenants {
		if err := CheckTenant(tenant); err != nil {
			return nil, false, err
		}
		wanted[tenant] = true
	}
	pattern := s.keys.Execution("*", "*")
	if len(tenants) == 1 {
		pattern = s.keys.Execution(tenants[0], "*")
	}
	found = map[string][]string{}
	for cursor := uint64(0); looks > 0; looks-- {
		names, next, err := s.rdb.ScanType(ctx, cursor, pattern, scanCount, "hash").Result()
		if err != nil {
			return nil, false, failed("look for executions", err)
		}
		if err := s.unlisted(ctx, s.named(names, wanted), found); err != nil {
			return nil, false, failed("look for executions", err)
		}
		if cursor = next; cursor == 0 {
			complete = true
			break
		}
	}
	for tenant, ids := range found {
		found[tenant] = slices.Compact(sorted(ids))
	}
	return found, complete, nil
}

// named are the executions that keys are of, as far as they are of tenants that matter.
func (s *Store) named(names []string, wanted map[string]bool) (out []ofTenant) {
	for _, name := range names {
		tenant, id, _ := strings.Cut(strings.TrimPrefix(name, "tenant:"), ":execution:")
		if tenant = strings.Trim(tenant, "{}"); wanted[tenant] && name == s.keys.Execution(tenant, id) {
			out = append(out, ofTenant{tenant, id})
		}
	}
	return out
}

// unlisted adds those of some executions that do not stand where their status belongs.
func (s *Store) unlisted(ctx context.Context, all []ofTenant, found map[string][]string) error {
	if len(all) == 0 {
		return nil
	}
	pipe := s.rdb.Pipeline()
	statuses := make([]*redis.StringCmd, len(all))
	for i, x := range all {
		statuses[i] = pipe.HGet(ctx, s.keys.Execution(x.tenant, x.id), "status")
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	listed := make([]*redis.FloatCmd, len(all))
	for i, x := range all {
		listed[i] = pipe.ZScore(ctx, s.keys.Executions(x.tenant, indexOf(statuses[i].Val())), x.id)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, x := range all {
		if statuses[i].Val() != "" && errors.Is(listed[i].Err(), redis.Nil) {
			found[x.tenant] = append(found[x.tenant], x.id)
		}
	}
	return nil
}
