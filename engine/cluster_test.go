package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// Executions of many tenants complete on a Redis Cluster, on every master, even while slots move.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	const tenants, each = 12, 5
	e := clustered(t, cluster)
	masters := map[string]int{}
	names := make([]string, tenants)
	for i := range names {
		names[i] = fmt.Sprint("t-", i)
		at, err := e.Store.AddressOf(t.Context(), names[i])
		if err != nil {
			t.Fatal(err)
		}
		masters[at]++
	}
	if len(masters) != 3 {
		t.Fatalf("the tenants are on %v, want three masters", masters)
	}
	run(t, e)
	begin := func(round int) {
		for _, tenant := range names {
			def, _, err := dsl.Parse("steps.yaml", []byte(clusterSteps))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
				t.Fatal(err)
			}
			for i := range each {
				if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: fmt.Sprintf("x-%d-%d", round, i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	begin(1)
	cluster.Reshard(t, e.Store.Keys().Stream(names[0]), 2000)
	begin(2)
	for _, tenant := range names {
		for round := 1; round <= 2; round++ {
			for i := range each {
				endedOf(t, e, tenant, fmt.Sprintf("x-%d-%d", round, i))
			}
		}
	}
}

// clustered is an engine for all tenants of a cluster.
func clustered(t *testing.T, cluster *redistest.Cluster) *engine.Engine {
	t.Helper()
	opts := engine.Defaults()
	opts.Process, opts.Transport, opts.Tenants = "clustered", http.DefaultTransport, nil
	opts.Workers, opts.Executors, opts.ExtraExecutors, opts.Timers, opts.Discover, opts.Remote = 2, 4, 0, 2, true, true
	e, err := engine.New(cluster.Client(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The clocks of a cluster's nodes are at least ten minutes apart: no timer is early or late, since the
// timers of a tenant follow only the clock of its own node.
func TestClusterClocks(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartSkewed(t, 0, 10*time.Minute, -10*time.Minute)
	e := clustered(t, cluster)
	began := map[string]time.Time{}
	masters := map[string]bool{}
	for i := 0; len(masters) < 3 || i < 9; i++ {
		tenant := fmt.Sprint("t-", i)
		at, err := e.Store.AddressOf(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		masters[at] = true
		def, _, err := dsl.Parse("wait.yaml", []byte(clusterWait))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
			t.Fatal(err)
		}
		began[tenant] = time.Now()
		if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	run(t, e)
	for tenant, at := range began {
		endedOf(t, e, tenant, "x")
		if took := time.Since(at); took < 2*time.Second || took > patience {
			t.Errorf("two seconds took tenant %s %v", tenant, took)
		}
	}
}

const clusterWait = `document: {dsl: '1.0.3', namespace: test, name: wait, version: '1.0.0'}
do:
  - a: {wait: PT1S}
  - b: {try: [{c: {raise: {error: {type: x, status: 500}}}}], catch: {retry: {delay: PT1S, limit: {attempt: {count: 1}}}, do: [{d: {set: {n: 1}}}]}}
`

const clusterSteps = `document: {dsl: '1.0.3', namespace: test, name: steps, version: '1.0.0'}
do:
  - a: {set: {n: 1}}
  - b: {wait: PT0.05S}
  - c: {set: {n: 2}}
`

// endedOf waits until an execution has completed.
func endedOf(t *testing.T, e *engine.Engine, tenant, id string) {
	t.Helper()
	var x store.Execution
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		var err error
		if x, err = e.Store.Execution(t.Context(), tenant, id); err == nil && x.Status == "completed" {
			history, err := e.Store.History(t.Context(), tenant, id, 0, 1000)
			if err != nil || int64(len(history)) != x.Version {
				t.Fatalf("%s of %s has version %d and %d entries of history, error %v", id, tenant, x.Version, len(history), err)
			}
			return
		}
	}
	t.Fatalf("%s of %s is %q after a minute", id, tenant, x.Status)
}

// While a master is down, the executions on the others continue, and so do their timers.
func TestExecutionsOnOtherMasters(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	e := clustered(t, cluster)
	def, _, err := dsl.Parse("steps.yaml", []byte(clusterSteps))
	if err != nil {
		t.Fatal(err)
	}
	tenants := map[*redistest.Server]string{} // one of each master
	for i := 0; len(tenants) < 3; i++ {
		tenant := fmt.Sprint("t-", i)
		tenants[cluster.MasterOf(t, e.Store.Keys().Stream(tenant))] = tenant
		if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var services sync.WaitGroup
	services.Go(func() { _ = e.Run(ctx, slog.New(slog.DiscardHandler)) }) // it cannot release everything in the end
	defer services.Wait()
	defer cancel()
	for _, tenant := range tenants {
		if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: "x"}); err != nil {
			t.Fatal(err)
		}
		endedOf(t, e, tenant, "x")
	}
	dies := cluster.MasterOf(t, e.Store.ClockKey()) // of all masters, services need this one most
	dies.Kill()
	delete(tenants, dies)
	until(t, "the timer service notices it", func() bool {
		return slices.ContainsFunc(e.Health(), func(h engine.Health) bool { return h.Kind == "timer" && h.Failures > 0 })
	})
	for _, tenant := range tenants {
		if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: "y"}); err != nil {
			t.Fatal(err)
		}
		endedOf(t, e, tenant, "y")
	}
}
