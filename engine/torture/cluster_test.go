//go:build unix

package torture_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

// clustered is an engine on a Redis, and what was started on it.
type clustered struct {
	t      *testing.T
	engine *engine.Engine
	defs   map[string]*dsl.Definition // by tenant
}

// clusteredOn runs the services in this process, for all tenants. What a failover loses is claimed or
// restored after about one lease.
func clusteredOn(t *testing.T, address string, replicas int, lease time.Duration) *clustered {
	t.Helper()
	wire.Silence()
	dial := func() wire.Redis {
		rdb, err := store.Dial(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		store.ConfirmWrites(rdb, replicas)
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	opts := role{Process: "clustered", Workers: 4, Executors: 8, Timers: 2, Discover: true, Remote: true, Lease: lease, Block: time.Second}.options()
	opts.Activity, opts.Tenants = nil, nil
	served, err := engine.New(dial(), opts)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		_ = served.Run(ctx, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { <-done })
	opts.Process, opts.Workers, opts.Executors, opts.Timers = "starts", 0, 0, 0
	starts, err := engine.New(dial(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return &clustered{t: t, engine: starts, defs: map[string]*dsl.Definition{}}
}

const clusterDocument = `document: {dsl: '1.0.3', namespace: torture, name: steps, version: '1.0.0'}
do:
  - a: {set: {n: 1}}
  - b: {wait: PT0.02S}
  - c: {set: {n: 2}}
`

// prepare registers the workflow for a tenant.
func (c *clustered) prepare(tenants ...string) {
	c.t.Helper()
	for _, tenant := range tenants {
		def, _, err := dsl.Parse("steps.yaml", []byte(clusterDocument))
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.engine.Definitions.Register(c.t.Context(), tenant, def); err != nil {
			c.t.Fatal(err)
		}
		c.defs[tenant] = def
	}
}

// problem returns what is wrong with an execution; "" if it has completed without gaps or repetitions in
// its history, wait if it has not completed yet.
func (c *clustered) problem(tenant, id string) (wrong string, wait bool) {
	x, err := c.engine.Store.Execution(c.t.Context(), tenant, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "is lost", false
	case err != nil:
		return err.Error(), true
	case !decide.Status(x.Status).Ended():
		return "is " + x.Status, true
	case x.Status != string(decide.Completed):
		return "is " + x.Status + ": " + string(x.Error), false
	}
	history, err := c.engine.Store.History(c.t.Context(), tenant, id, 0, 1000)
	if err != nil || int64(len(history)) != x.Version {
		return fmt.Sprintf("has version %d and %d entries, error %v", x.Version, len(history), err), false
	}
	seen := map[string]bool{}
	for _, e := range history {
		name := string(e.Type) + " " + e.Task
		if seen[name] {
			return "has twice " + name, false
		}
		seen[name] = true
	}
	if !seen[string(event.WorkflowCompleted)+" "] {
		return "has no end in its history", false
	}
	return "", false
}

// finish waits until tenants have no open executions, but not longer than patience.
func (c *clustered) finish(tenants []string) {
	c.t.Helper()
	deadline := time.Now().Add(patience())
	for _, tenant := range tenants {
		for time.Now().Before(deadline) {
			if counts, err := c.engine.Store.Counts(c.t.Context(), tenant); err == nil && counts.Open == 0 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// check waits until executions have ended, and returns the indexes of the lost ones and the number of
// those that are wrong.
func (c *clustered) check(tenant string, ids []string) (lost []int, wrong int) {
	c.t.Helper()
	deadline := time.Now().Add(patience())
	for i, id := range ids {
		what, wait := c.problem(tenant, id)
		for ; wait && time.Now().Before(deadline); what, wait = c.problem(tenant, id) {
			time.Sleep(5 * time.Millisecond)
		}
		if what == "is lost" {
			lost = append(lost, i)
		} else if what != "" {
			if wrong++; wrong <= 3 {
				c.t.Errorf("%s of tenant %s %s", id, tenant, what)
			}
		}
	}
	return lost, wrong
}

// The master of a busy tenant dies again and again: the cluster recovers within seconds, no history has
// gaps or repetitions, and with REDIS_WAIT nothing that was confirmed is lost.
func TestClusterFailover(t *testing.T) {
	for _, replicas := range []int{0, wire.AllReplicas} {
		t.Run(fmt.Sprint("replicas=", replicas), func(t *testing.T) {
			if !*full {
				t.Parallel()
				if replicas == 0 {
					t.Skip("only at full size (-torture)")
				}
			}
			cluster := redistest.StartCluster(t)
			c := clusteredOn(t, cluster.URL(), replicas, time.Second)
			const busy = "busy"
			c.prepare(busy, "other")
			var mu sync.Mutex
			var started []string
			var killed []int // number of executions that were started before each kill
			outage, last := time.Duration(0), time.Now()
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(2 * time.Millisecond):
					}
					id := fmt.Sprint("x", n)
					if err := c.engine.Start(t.Context(), c.defs[busy], engine.StartRequest{Tenant: busy, ID: id}); err == nil {
						mu.Lock()
						outage, last = max(outage, time.Since(last)), time.Now()
						started = append(started, id)
						mu.Unlock()
					}
				}
			}()
			more := func(n int) (now int) { // waits until n more executions were started
				t.Helper()
				mu.Lock()
				before := len(started)
				mu.Unlock()
				for began := time.Now(); now < before+n; time.Sleep(5 * time.Millisecond) {
					if time.Since(began) > patience() {
						t.Fatalf("%d executions were started in %v", now-before, patience())
					}
					mu.Lock()
					now = len(started)
					mu.Unlock()
				}
				return now
			}
			key := c.engine.Store.Keys().Stream(busy)
			for range size(1, 3) {
				cluster.WaitForReplica(t, key)
				killed = append(killed, more(100))
				master := cluster.MasterOf(t, key)
				master.Kill()
				more(20)
				master.Restart(t)
			}
			close(stop)
			<-done
			lost, wrong := c.check(busy, started)
			t.Logf("executions=%d lost=%d wrong=%d longest outage=%v", len(started), len(lost), wrong, outage.Round(time.Millisecond))
			if wrong > 0 || replicas != 0 && len(lost) > 0 {
				t.Errorf("%d of %d executions are wrong, %d are lost", wrong, len(started), len(lost))
			}
			for _, i := range lost {
				const last = 100 // started within about half a second of a kill
				if !slices.ContainsFunc(killed, func(n int) bool { return max(i, n)-min(i, n) <= last }) {
					t.Errorf("%s is lost, which was not among the last writes before or after a kill: kills after %v starts", started[i], killed)
				}
			}
			if *full && outage > 4*time.Second {
				t.Errorf("nothing went on for %v, want at most 4 s", outage)
			}
		})
	}
}

// All tenants' executions complete, on all masters, at nearly the rate of one Redis; in a second run,
// the cluster's slots move meanwhile.
func TestClusterRate(t *testing.T) {
	if !*full {
		t.Skip("only at full size (-torture)")
	}
	const tenants, each = 100, 100
	names := names("t", tenants)
	run := func(c *clustered, begun func()) float64 {
		t.Helper()
		c.prepare(names...)
		began := time.Now()
		var all sync.WaitGroup
		for part := range slices.Chunk(names, 10) {
			all.Go(func() {
				for i := range each {
					for _, tenant := range part {
						for c.engine.Start(t.Context(), c.defs[tenant], engine.StartRequest{Tenant: tenant, ID: fmt.Sprint("x", i)}) != nil {
							time.Sleep(5 * time.Millisecond) // a slot is moving; it may have been written
							if _, err := c.engine.Store.Execution(t.Context(), tenant, fmt.Sprint("x", i)); err == nil {
								break
							}
						}
					}
				}
			})
		}
		begun()
		all.Wait()
		c.finish(names)
		rate := tenants * each / time.Since(began).Seconds()
		ids := make([]string, each)
		for i := range ids {
			ids[i] = fmt.Sprint("x", i)
		}
		masters := map[string]int{}
		for _, tenant := range names {
			if lost, wrong := c.check(tenant, ids); len(lost)+wrong > 0 {
				t.Errorf("tenant %s: %d lost, %d wrong", tenant, len(lost), wrong)
			}
			at, _ := c.engine.Store.AddressOf(t.Context(), tenant)
			masters[at]++
		}
		t.Logf("%.0f executions per second, tenants by master %v", rate, masters)
		return rate
	}
	cluster := redistest.StartCluster(t)
	t.Run("rate", func(t *testing.T) {
		usual := engine.Defaults().Lease
		one := run(clusteredOn(t, redistest.Serve(t).Addr(), 0, usual), func() {})
		ratio := run(clusteredOn(t, cluster.URL(), 0, usual), func() {}) / one
		t.Logf("the cluster has %.2f times the rate of one Redis", ratio)
		if ratio < 0.8 {
			t.Errorf("the rate is %.2f times that of one Redis, want 0.8", ratio)
		}
	})
	t.Run("resharding", func(t *testing.T) {
		moving := redistest.StartCluster(t)
		c := clusteredOn(t, moving.URL(), 0, time.Second)
		run(c, func() { moving.Reshard(t, c.engine.Store.Keys().Stream(names[0]), 2000) })
	})
}
