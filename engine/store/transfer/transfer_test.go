package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/transfer"
	"flunq.io/flunq/engine/store/wire"
)

const document = `document: {dsl: '1.0.3', namespace: test, name: mixed, version: '1.0.0'}
do:
  - all:
      fork:
        branches:
          - rest: {wait: PT8S}
          - hear: {listen: {to: {one: {with: {type: com.example.x}}}}}
  - end: {set: {done: true}}
`

// process runs an engine for some tenants until stop is called.
func process(t *testing.T, rdb wire.Redis, tenants ...string) (e *engine.Engine, stop func()) {
	t.Helper()
	opts := engine.Defaults()
	opts.Transport = http.DefaultTransport
	opts.Process, opts.Tenants, opts.Workers, opts.Executors, opts.ExtraExecutors, opts.Timers = "p", tenants, 1, 1, 0, 1
	opts.Block(50 * time.Millisecond)
	e, err := engine.New(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx, slog.New(slog.DiscardHandler))
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return e, stop
}

// killed is a hook that makes all commands fail after some number, as if the process was killed: the
// last one may or may not be executed.
type killed struct {
	left     *int
	executed bool
}

var errKilled = errors.New("the process was killed")

// DialHook implements redis.Hook.
func (killed) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (k killed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		*k.left--
		if *k.left > 0 || *k.left == 0 && k.executed {
			if err := next(ctx, cmd); err != nil || *k.left > 0 {
				return err
			}
		}
		cmd.SetErr(errKilled)
		return errKilled
	}
}

// ProcessPipelineHook implements redis.Hook.
func (killed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A tenant with open executions, timers and an input moves from a single Redis to a cluster, even if
// the move is often interrupted, and continues there. Another tenant is unchanged.
func TestMove(t *testing.T) {
	t.Parallel()
	const moving, staying = "moving", "staying"
	server, cluster := redistest.Serve(t), redistest.StartCluster(t)
	single := server.Client(t)
	from, to := store.New(single, store.Options{}), store.New(cluster.Client(t), store.Options{})
	e, stop := process(t, single, moving, staying)
	def, _, err := dsl.Parse("mixed.yaml", []byte(document))
	must(t, err)
	for _, tenant := range []string{moving, staying} {
		_, err := e.Definitions.Register(t.Context(), tenant, def)
		must(t, err)
		for i := range 5 {
			must(t, e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: fmt.Sprint("x-", i)}))
			until(t, func() string { return status(t, from, tenant, fmt.Sprint("x-", i)) }, "waiting")
		}
		now, err := from.Now(t.Context())
		must(t, err)
		_, err = timers.New(from).SetInput(t.Context(), event.Timer{
			Tenant: tenant, Workflow: def.ID(), Execution: "x-0", FireAt: now.Add(9 * time.Second), Kind: event.InputTimer, Key: "later",
			Input: event.EncodeInput(event.Event{Type: "com.example.x", Source: "/test"}),
		}, now)
		must(t, err)
	}
	until(t, func() string {
		return strconv.FormatInt(single.ZCard(t.Context(), from.Keys().Timers(moving)).Val(), 10)
	}, "12")
	stop()
	before := keys(t, single)

	look := &transfer.Move{Tenant: moving, From: from, To: to}
	used, key := cluster.Client(t), to.Keys().Stream(moving)
	id := used.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}}).Val()
	if err := look.Find(t.Context()); !errors.Is(err, transfer.ErrThere) {
		t.Errorf("a tenant with an event is at the destination: %v", err)
	}
	must(t, used.XDel(t.Context(), key, id).Err()) // as a service leaves it that has found no events
	must(t, look.Find(t.Context()))
	if look.Timers != 6 || look.Keys < 10 {
		t.Errorf("found %d keys and %d timers, want 6 timers", look.Keys, look.Timers)
	}
	if diff := cmp.Diff(before, keys(t, single)); diff != "" {
		t.Errorf("looking has changed something (-was +is):\n%s", diff)
	}
	attempts, copied := 0, false
	for after := 1; ; after++ { // always a bit longer
		attempts++
		if !copied && used.Get(t.Context(), key+":arrived").Val() == "1" { // what follows is short
			copied, after = true, 1
		}
		left := after
		dying := server.Client(t)
		dying.AddHook(killed{&left, after%2 == 0})
		dead := cluster.Client(t)
		dead.AddHook(killed{&left, after%2 == 0})
		m := &transfer.Move{Tenant: moving, From: store.New(dying, store.Options{}), To: store.New(dead, store.Options{})}
		err := m.Find(t.Context())
		if err == nil && (m.Timers != look.Timers || m.Keys != look.Keys) {
			t.Errorf("attempt %d: found %d keys and %d timers, want %d and %d", attempts, m.Keys, m.Timers, look.Keys, look.Timers)
		}
		if err == nil {
			err = m.Run(t.Context())
		}
		if err == nil {
			break
		}
		if errors.Is(err, store.ErrNotFound) { // only the last reply was lost
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatalf("attempt %d: %v", attempts, err)
		}
		if used.Exists(t.Context(), key).Val() == 0 && used.ZCard(t.Context(), to.Keys().Timers(moving)).Val() > 0 {
			t.Fatalf("attempt %d: services of the destination would fire timers of a tenant that has not arrived", attempts)
		}
	}
	t.Logf("%d attempts", attempts)
	again := &transfer.Move{Tenant: moving, From: from, To: to}
	if err := again.Find(t.Context()); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "the destination has it") {
		t.Errorf("moved again: %v", err)
	}
	for key := range keys(t, single) {
		if strings.Contains(key, moving) {
			t.Errorf("%s is left where the tenant comes from", key)
		}
	}
	if n := single.ZCard(t.Context(), from.Keys().Timers(staying)).Val(); n != 6 {
		t.Errorf("the other tenant has %d timers, want 6", n)
	}
	there, err := to.Tenants(t.Context())
	if err != nil || !slices.Equal(there, []string{moving}) {
		t.Errorf("tenants of the cluster: %v, error %v", there, err)
	}

	for st, tenant := range map[*store.Store]string{from: staying, to: moving} {
		process(t, st.Redis(), tenant)
		until(t, func() string { return status(t, st, tenant, "x-0") }, "completed")
		for i := 1; i < 5; i++ {
			must(t, st.Publish(t.Context(), event.Event{ID: fmt.Sprint("e-", i), Type: "com.example.x", Source: "/test", Tenant: tenant}))
			until(t, func() string { return status(t, st, tenant, fmt.Sprint("x-", i)) }, "completed")
		}
		for i := range 5 {
			id := fmt.Sprint("x-", i)
			x, err := st.Execution(t.Context(), tenant, id)
			must(t, err)
			history, err := st.History(t.Context(), tenant, id, 0, 1000)
			if err != nil || int64(len(history)) != x.Version {
				t.Errorf("%s of %s has version %d and %d entries of history, error %v", id, tenant, x.Version, len(history), err)
			}
		}
	}
}

// keys returns the types of all keys of a Redis.
func keys(t *testing.T, rdb wire.Redis) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		out[key] = rdb.Type(t.Context(), key).Val()
	}
	maps.DeleteFunc(out, func(key, _ string) bool { return key == store.ProcessesKey })
	return out
}

func status(t *testing.T, st *store.Store, tenant, id string) string {
	t.Helper()
	x, err := st.Execution(t.Context(), tenant, id)
	if err != nil {
		return err.Error()
	}
	return x.Status
}

// until waits until a condition holds.
func until(t *testing.T, is func() string, want string) {
	t.Helper()
	for began := time.Now(); is() != want; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("it is %s, want %s", is(), want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A tenant is not moved while a process serves it that is only a bridge, and writes to its stream. A
// tenant that does not exist is reported as such, even if a process would serve it.
func TestMoveOfBridged(t *testing.T) {
	t.Parallel()
	rdb := redistest.Serve(t).Client(t)
	from := store.New(rdb, store.Options{})
	must(t, from.Publish(t.Context(), event.Event{ID: "e", Type: "com.example.x", Source: "/test", Tenant: "acme"}))
	m := &transfer.Move{Tenant: "acme", From: from, To: store.New(redistest.Serve(t).Client(t), store.Options{})}
	must(t, m.Find(t.Context()))
	must(t, processes.In(from).Register(t.Context(), &processes.Process{
		Name: "b", Tenants: []string{"acme", "unknown"}, Services: []processes.Service{{Name: "bridge", Group: "bridge-kafka"}},
	}))
	if err := m.Find(t.Context()); !errors.Is(err, transfer.ErrServed) {
		t.Errorf("found %v, want that a process serves the tenant", err)
	}
	m.Tenant = "unknown"
	if err := m.Find(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("found %v, want that there is no such tenant", err)
	}
}

// A tenant that has workflows and no stream is not taken for what an interrupted move has left: neither
// at its own Redis, where it would be removed, nor at another one.
func TestMoveSparesWorkflows(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("mixed.yaml", []byte(document))
	must(t, err)
	one, other := redistest.Serve(t).Client(t), redistest.Serve(t).Client(t)
	for _, rdb := range []wire.Redis{one, other} {
		e, stop := process(t, rdb, "staying")
		stop()
		_, err := e.Definitions.Register(t.Context(), "acme", def)
		must(t, err)
		before := keys(t, rdb)
		m := &transfer.Move{Tenant: "acme", From: store.New(one, store.Options{}), To: store.New(rdb, store.Options{})}
		if err := m.Find(t.Context()); !errors.Is(err, transfer.ErrThere) {
			t.Errorf("found %v, want that the tenant exists at the destination", err)
		}
		if diff := cmp.Diff(before, keys(t, rdb)); diff != "" {
			t.Errorf("looking has changed something (-was +is):\n%s", diff)
		}
	}
}

// A tenant whose source was served after a move had begun to delete it is not moved until its remainder is
// given up there.
func TestMoveOfChanged(t *testing.T) {
	t.Parallel()
	source, destination := redistest.Serve(t), redistest.Serve(t)
	from, to := store.New(source.Client(t), store.Options{}), store.New(destination.Client(t), store.Options{})
	publish := func(id string) {
		t.Helper()
		must(t, from.Publish(t.Context(), event.Event{ID: id, Type: "com.example.x", Source: "/test", Tenant: "acme"}))
	}
	publish("e-1")
	move := func(left int) error {
		dying := source.Client(t)
		dying.AddHook(killed{left: &left})
		m := &transfer.Move{Tenant: "acme", From: store.New(dying, store.Options{}), To: to}
		if err := m.Find(t.Context()); err != nil {
			return err
		}
		return m.Run(t.Context())
	}
	for after := 1; to.Redis().Get(t.Context(), "tenant:acme:events:arrived").Val() != "1"; after++ {
		if err := move(after); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	publish("e-2")
	for range 2 {
		if err := move(1 << 30); !errors.Is(err, transfer.ErrChanged) || !strings.Contains(err.Error(), "'flunq tenants rm acme' at the source") {
			t.Fatalf("%v, want that it has changed, and what to do", err)
		}
	}
	must(t, from.RemoveTenant(t.Context(), "acme"))
	must(t, move(1<<30))
	if n := to.Redis().XLen(t.Context(), to.Keys().Stream("acme")).Val(); n != 1 {
		t.Errorf("%d events have arrived, want 1", n)
	}
}
