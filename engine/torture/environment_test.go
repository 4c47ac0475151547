//go:build unix

package torture_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

const (
	tenant    = "default"
	streamKey = "tenant:default:events"
	deadKey   = "tenant:default:events:dlq"
	timersKey = "flunq:timers:all"
)

// environment is a Redis and the processes around it, with methods to disturb them.
type environment struct {
	*processes

	t       *testing.T
	server  *redistest.Server
	address string
	rdb     wire.Redis
	store   *store.Store
	engine  *engine.Engine // runs no services: it starts executions
	rand    *rand.Rand
	seed    uint64
	remote  bool
	defs    map[string]*decide.Env // by workflow
}

// begin makes an environment with an empty Redis and the given settings. Small runs are
// parallel; full ones, which measure, are sequential.
func begin(t *testing.T, settings ...string) *environment {
	t.Helper()
	if !*full {
		t.Parallel()
	}
	wire.Silence()
	w := &environment{t: t, seed: *seed, server: redistest.Serve(t, settings...), defs: map[string]*decide.Env{}}
	if w.seed == 0 {
		w.seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	w.rand = rand.New(rand.NewPCG(w.seed, 0))
	w.processes = newProcesses(t)
	w.reach(w.server.Addr())
	w.must(w.engine.Prepare(t.Context()))
	return w
}

// reach sets the address that the test and its processes use from now on.
func (w *environment) reach(address string) {
	w.t.Helper()
	var err error
	w.address = address
	w.rdb, err = store.Dial(w.t.Context(), address)
	w.must(err)
	rdb := w.rdb
	w.t.Cleanup(func() { rdb.Close() })
	w.store = store.New(w.rdb, store.Options{})
	w.engine, err = engine.New(w.rdb, role{Process: "test", Lease: lease()}.options())
	w.must(err)
}

// size returns small or, in a full run, large.
func size[T any](small, large T) T {
	if *full {
		return large
	}
	return small
}

func (w *environment) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// lease is short so that many expire during a test.
func lease() time.Duration { return size(300*time.Millisecond, time.Second) }

// run starts n processes of a role. They look often for abandoned entries and have short
// leases, unless the role says otherwise.
func (w *environment) run(n int, r role) {
	r.Redis = w.address
	r.Lease, r.Block = cmp.Or(r.Lease, lease()), cmp.Or(r.Block, lease()/5)
	w.remote = r.Remote
	for range n {
		w.add(r)
	}
}

// now returns Redis' time.
func (w *environment) now() time.Time {
	w.t.Helper()
	now, err := w.store.Now(w.t.Context())
	w.must(err)
	return now
}

// report prints the figures of a run in one line.
func (w *environment) report(format string, args ...any) {
	w.t.Helper()
	w.t.Logf("seed=%d kills=%d %s", w.seed, w.killed, fmt.Sprintf(format, args...))
}

// want fails the test if a figure exceeds its maximum.
func (w *environment) want(what string, got, limit int) {
	w.t.Helper()
	if got > limit {
		w.t.Errorf("%s: %d, want at most %d", what, got, limit)
	}
}

// patience is how long to wait for something that takes seconds on an idle machine; a
// full run has the machine to itself.
func patience() time.Duration { return size(3*time.Minute, 50*time.Second) }

// until waits until left, which describes what is unfinished, returns "".
func (w *environment) until(left func() string) {
	w.t.Helper()
	deadline := time.Now().Add(patience())
	for {
		still := left()
		if still == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("seed=%d: after %v there is left: %s", w.seed, patience(), still)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// within returns a context for calls that take no longer than span on an idle machine.
func (w *environment) within(span time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), span+patience())
	w.t.Cleanup(cancel)
	return ctx
}

// define registers a workflow.
func (w *environment) define(name, do string) *dsl.Definition {
	w.t.Helper()
	text := "document: {dsl: '1.0.3', namespace: torture, name: " + name + ", version: '1.0.0'}\n" + do
	def, _, err := dsl.Parse(name+".yaml", []byte(text))
	w.must(err)
	_, err = w.engine.Definitions.Register(w.t.Context(), tenant, def)
	w.must(err)
	w.defs[def.ID()] = decide.NewEnv(def, decide.Options{Remote: w.remote, Limits: decide.DefaultLimits()})
	return def
}

// start begins an execution with a valid input.
func (w *environment) start(id string, def *dsl.Definition, input any) {
	w.t.Helper()
	text, err := json.Marshal(input)
	w.must(err)
	w.must(w.engine.Start(w.t.Context(), def, engine.StartRequest{Tenant: tenant, ID: id, Input: text}))
}

// atRest describes the unfinished work: timers, and events that these groups have pending
// or unread. It returns "" if there is none.
func (w *environment) atRest(groups ...string) string {
	var left []string
	// All at the same moment: an event may become a timer at any time.
	tx := w.rdb.TxPipeline()
	timers, stream, known := tx.ZCard(w.t.Context(), timersKey), tx.XInfoStream(w.t.Context(), streamKey), tx.XInfoGroups(w.t.Context(), streamKey)
	if _, err := tx.Exec(w.t.Context()); err != nil {
		return err.Error()
	}
	if n := timers.Val(); n > 0 {
		left = append(left, fmt.Sprintf("%d timers", n))
	}
	for _, g := range known.Val() {
		if g.Pending > 0 {
			left = append(left, fmt.Sprintf("%d pending of %s", g.Pending, g.Name))
		}
		if slices.Contains(groups, g.Name) && g.LastDeliveredID != stream.Val().LastGeneratedID {
			left = append(left, fmt.Sprintf("%s has read up to %s of %s", g.Name, g.LastDeliveredID, stream.Val().LastGeneratedID))
		}
	}
	return strings.Join(left, ", ")
}

// allGroups returns the groups of all services.
func allGroups() []string {
	return []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup}
}

// deadLetters returns the dead letters by their executions.
func (w *environment) deadLetters() map[string][]string {
	w.t.Helper()
	entries, err := w.rdb.XRange(w.t.Context(), deadKey, "-", "+").Result()
	w.must(err)
	out := map[string][]string{}
	for _, e := range entries {
		id := fmt.Sprint(e.Values["executionid"])
		out[id] = append(out[id], fmt.Sprintf("%v: %v", e.Values["type"], e.Values["reason"]))
	}
	return out
}

// noDeadLetters fails the test if there are dead letters.
func (w *environment) noDeadLetters() {
	w.t.Helper()
	w.want("dead letters", w.otherDeadLetters(), 0)
}

// otherDeadLetters returns the number of dead letters of other executions than the expected ones.
func (w *environment) otherDeadLetters(expected ...string) (others int) {
	w.t.Helper()
	shown := 0
	for id, reasons := range w.deadLetters() {
		if slices.Contains(expected, id) {
			continue
		}
		others += len(reasons)
		if shown++; shown <= 3 {
			w.t.Logf("dead letter of %s: %v", id, reasons)
		}
	}
	return others
}

// settle waits until all work is finished, stops the processes, and fails the test if
// anything is left.
func (w *environment) settle(groups ...string) {
	w.t.Helper()
	w.until(func() string { return w.atRest(groups...) })
	w.close()
	if left := w.atRest(); left != "" {
		w.t.Errorf("after the processes have stopped there is left: %s", left)
	}
}

// story is an execution with its history.
type story struct {
	store.Execution
	history []event.Event
}

// count returns how many events of some types the history has.
func (s story) count(types ...event.Type) (n int) {
	for _, e := range s.history {
		if slices.Contains(types, e.Type) {
			n++
		}
	}
	return n
}

// endings returns the events that end an execution.
func endings() []event.Type {
	return []event.Type{event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled}
}

// read reads an execution and checks its history: the versions are contiguous, and
// replaying it is valid.
func (w *environment) read(id string) (s story, err error) {
	ctx := w.t.Context()
	key := "tenant:" + tenant + ":execution:" + id
	n, err := atOnce.RunRO(ctx, w.rdb, []string{key, key + ":history"}).Int64Slice()
	if err != nil {
		return s, fmt.Errorf("execution %s: %w", id, err)
	}
	if n[0] != n[1] || n[0] != n[2] {
		return s, fmt.Errorf("execution %s is at version %d, its history has %d entries, the last is %d-0", id, n[0], n[1], n[2])
	}
	if s.Execution, err = w.store.Execution(ctx, tenant, id); err != nil {
		return s, err
	}
	if n[0] == 0 {
		return s, nil
	}
	if s.history, err = w.store.History(ctx, tenant, id, 0, int(n[0])); err != nil {
		return s, err
	}
	_, err = decide.Rebuild(w.defs[s.Workflow], s.history)
	if err != nil {
		return s, fmt.Errorf("execution %s: %w", id, err)
	}
	return s, nil
}

// atOnce reads, atomically, the version of an execution, the length of its history and
// the number of the last entry. KEYS: execution, history.
var atOnce = redis.NewScript(`
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local n = last and string.match(last[1], '^(%d+)-0$') or '0'
return {tonumber(redis.call('HGET', KEYS[1], 'version') or '-1'), redis.call('XLEN', KEYS[2]), tonumber(n)}
`)

// ended reads an execution that must have ended exactly once.
func (w *environment) ended(id string) (s story, err error) {
	s, err = w.read(id)
	if err == nil && (!decide.Status(s.Status).Ended() || s.count(endings()...) != 1) {
		err = fmt.Errorf("execution %s is %s and has ended %d times", id, s.Status, s.count(endings()...))
	}
	return s, err
}

// names returns n names of a kind.
func names(kind string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", kind, i)
	}
	return out
}

// during disturbs the environment at random moments of a span of time, which may have
// already begun.
func (w *environment) during(span time.Duration, doing map[string]int, do func(what string)) {
	span = max(span, 500*time.Millisecond)
	type moment struct {
		at   time.Duration
		what string
	}
	var moments []moment
	for _, what := range sortedKeys(doing) {
		for i := range doing[what] {
			// One in each part of the span, at a random moment.
			part := span / time.Duration(doing[what])
			moments = append(moments, moment{part*time.Duration(i) + time.Duration(w.rand.Int64N(int64(part))), what})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return int(a.at - b.at) })
	began := time.Now()
	for _, m := range moments {
		time.Sleep(m.at - time.Since(began))
		do(m.what)
	}
}

func sortedKeys(m map[string]int) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// random returns a random index below n.
func (w *environment) random(n int) int { return w.rand.IntN(n) }
