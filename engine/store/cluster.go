package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// Cluster describes the state of a Redis Cluster, as its nodes report it.
type Cluster struct {
	Masters   []Master // by address
	Uncovered int      // slots that no master serves
	Gone      []string // addresses of nodes that the others cannot reach
	Down      bool     // it accepts no commands (cluster_state:fail), so every tenant waits
}

// Master is a master of a Redis Cluster.
type Master struct {
	Server

	Address  string
	Slots    int
	Replicas []string // addresses of reachable replicas
	Err      error    // why it did not respond; nil if it did
}

// Slots is the number of slots of a Redis Cluster.
const Slots = 16384

// Clustered reports whether the Store is on a Redis Cluster.
func (s *Store) Clustered() bool { return wire.Clustered(s.rdb.Redis) }

// Cluster reads what the cluster reports about itself, and what each master reports about itself.
// The Store must be Clustered.
func (s *Store) Cluster(ctx context.Context) (Cluster, error) {
	var nodes, info *redis.StringCmd
	err := wire.AnyMaster(ctx, s.rdb.Redis, func(ctx context.Context, master wire.Redis) error {
		pipe := master.Pipeline()
		nodes, info = pipe.ClusterNodes(ctx), pipe.ClusterInfo(ctx)
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil {
		return Cluster{}, Failed("ask about the cluster", err)
	}
	c := ReadCluster(nodes.Val())
	c.Down = strings.Contains(info.Val(), "cluster_state:fail")
	byAddress := map[string]*Master{}
	for i := range c.Masters {
		m := &c.Masters[i]
		m.Err = errors.New("the client has not learned of it yet")
		byAddress[m.Address] = m
	}
	var running sync.WaitGroup
	err = wire.EachMaster(ctx, s.rdb.Redis, func(ctx context.Context, node wire.Redis, address string) error {
		if m := byAddress[address]; m != nil {
			running.Go(func() { m.Server, m.Err = serverOf(ctx, node) })
		}
		return nil
	})
	running.Wait()
	c.Masters = slices.DeleteFunc(c.Masters, func(m Master) bool { return m.Slots == 0 })
	return c, Failed("ask the masters", err)
}

// ReadCluster parses the reply to CLUSTER NODES.
func ReadCluster(text string) (c Cluster) {
	replicas := map[string][]string{} // by the id of their master
	ids := map[string]string{}        // of the masters, by address
	covered := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		const address, flags, master, slots = 1, 2, 3, 8
		at, _, _ := strings.Cut(fields[address], "@")
		is := strings.Split(fields[flags], ",")
		gone := slices.Contains(is, "fail")
		if gone {
			c.Gone = append(c.Gone, at)
		}
		switch {
		case slices.Contains(is, "slave") && !gone:
			replicas[fields[master]] = append(replicas[fields[master]], at)
		case slices.Contains(is, "master"):
			n := countSlots(fields[slots:])
			ids[at] = fields[0]
			if c.Masters = append(c.Masters, Master{Address: at, Slots: n}); !gone {
				covered += n
			}
		}
	}
	for i := range c.Masters {
		m := &c.Masters[i]
		m.Replicas = replicas[ids[m.Address]]
		slices.Sort(m.Replicas)
	}
	slices.SortFunc(c.Masters, func(a, b Master) int { return strings.Compare(a.Address, b.Address) })
	slices.Sort(c.Gone)
	c.Uncovered = Slots - covered
	return c
}

// countSlots counts slots as CLUSTER NODES lists them: 5, 0-99, or [93->-id] for one being moved.
func countSlots(ranges []string) (n int) {
	for _, text := range ranges {
		from, to, some := strings.Cut(text, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if some {
			last, _ = strconv.Atoi(to) // Redis always writes numbers
		}
		n += last - first + 1
	}
	return n
}

// AddressOf returns the address of the master that holds a tenant; "" on a single Redis.
func (s *Store) AddressOf(ctx context.Context, tenant string) (string, error) {
	_, address, err := wire.MasterOf(ctx, s.rdb.Redis, s.keys.Stream(tenant))
	return address, Failed("ask where tenant "+tenant+" is", err)
}

// Reachable returns the registered tenants, on a cluster those whose master responds, and an error about
// the others that says what of theirs is missing; nil if there are none. If the master with the list of
// tenants does not respond, it returns those that have a stream on another one.
func Reachable(ctx context.Context, s *Store, what string) (reachable []string, err error) {
	tenants, err := s.Tenants(ctx)
	if !s.Clustered() {
		return tenants, err
	}
	if err != nil {
		if found, _ := s.FindTenants(ctx); len(found) > 0 {
			return found, fmt.Errorf("the %s of tenants on other masters, if there are any, are missing: %w", what, err)
		}
		return nil, err
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	silent := map[string]error{} // by the address of the master
	err = wire.EachMaster(ctx, s.rdb.Redis, func(ctx context.Context, master wire.Redis, address string) error {
		running.Go(func() {
			if err := master.Ping(ctx).Err(); err != nil && !unsaved(err) {
				mu.Lock()
				defer mu.Unlock()
				silent[address] = err
			}
		})
		return nil
	})
	running.Wait()
	if err != nil {
		return nil, Failed("ask the masters", err)
	}
	const most = 5
	var missing []string
	var reason error
	for _, tenant := range tenants {
		at, err := s.AddressOf(ctx, tenant)
		if err != nil {
			return nil, err
		}
		if silent[at] == nil {
			reachable = append(reachable, tenant)
			continue
		}
		missing, reason = append(missing, tenant), cmp.Or(reason, silent[at])
	}
	if reason == nil {
		return reachable, nil
	}
	more := ""
	if len(missing) > most {
		more = fmt.Sprintf(" and %d more", len(missing)-most)
	}
	return reachable, fmt.Errorf("the %s of these tenants are missing: %s%s: %w", what,
		strings.Join(missing[:min(most, len(missing))], ", "), more, Failed("ask their master", reason))
}

// MemoryUse returns how many bytes Redis uses and may use at most; on a cluster, those of the
// fullest master that responds. The limit is 0 if there is none or Redis does not report it.
func (s *Store) MemoryUse(ctx context.Context) (used, most int64, err error) {
	answered, silent := false, error(nil)
	err = wire.EachMaster(ctx, s.rdb.Redis, func(ctx context.Context, node wire.Redis, _ string) error {
		info, err := node.Info(ctx, "memory").Result()
		_, refused := errors.AsType[redis.Error](err)
		if err != nil && !refused {
			silent = err
			return nil
		}
		answered = true
		if refused {
			return nil // without INFO the limit is unknown
		}
		v := ReadServer(info, nil)
		if limit := max(v.Limit, 0); most == 0 && limit == 0 && v.Used > used || limit > 0 && (most == 0 || v.Used*(most>>10) > used*(limit>>10)) {
			used, most = v.Used, limit
		}
		return nil
	})
	if err == nil && !answered {
		err = silent
	}
	return used, most, Failed("read the memory use", err)
}
