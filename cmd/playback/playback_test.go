package playback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/cmd/playback"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/tui"
	"flunq.io/flunq/workflows"
)

// run is a run of an example and its events.
type run struct {
	opts   playback.Options
	events []event.Event
	groups []int // sizes of the commits
}

// example returns a run of an example.
func example(t *testing.T, name string) run {
	t.Helper()
	e, err := workflows.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Input: e.Input, Seed: 1, Start: sim.Epoch(), ID: "run-1"}
	cfg.Definition = parsed(t, name, e.Document)
	for _, file := range slices.Sorted(maps.Keys(e.With)) {
		cfg.With = append(cfg.With, parsed(t, file, e.With[file]))
	}
	if e.Mocks != nil {
		if cfg.Mocks, err = mock.Parse(name, e.Mocks); err != nil {
			t.Fatal(err)
		}
	}
	return simulated(t, cfg)
}

func parsed(t testing.TB, name string, text []byte) *dsl.Definition {
	t.Helper()
	def, _, err := dsl.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return def
}

func simulated(t testing.TB, cfg sim.Config) run {
	t.Helper()
	var r run
	cfg.Observe = func(events []event.Event) {
		r.events = append(r.events, events...)
		r.groups = append(r.groups, len(events))
	}
	if _, err := sim.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r.opts = playback.Options{
		Definition: cfg.Definition, With: cfg.With, Decide: decide.Options{Remote: true},
		Tenant: "default", Start: cfg.Start, Place: "a run", Still: "nothing can be changed in a run",
	}
	return r
}

// watch is a clock that the test sets.
type watch struct {
	mu  sync.Mutex
	now time.Time
}

func newWatch() *watch { return &watch{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (w *watch) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *watch) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// playback returns a playback of the whole run, at its beginning.
func (r run) playback(w *watch) *playback.Playback {
	opts := r.opts
	opts.Now = w.Now
	f := playback.New(opts)
	f.Append(r.events)
	f.End()
	return f
}

// at returns a playback after n events.
func (r run) at(n int) *playback.Playback {
	f := r.playback(newWatch())
	f.At(max(n, 1), time.Time{})
	if n == 0 {
		done(f.Move(context.Background(), tui.Move{Verb: tui.LastEvent}))
	}
	return f
}

// everything returns all responses of a playback that do not depend on how it was moved.
func everything(t *testing.T, f *playback.Playback) string {
	t.Helper()
	ctx := t.Context()
	o := ok(f.Overview(ctx))
	o.Now, o.Clock, o.Events, o.Fires, o.Notes = time.Time{}, tui.Clock{}, 0, 0, nil
	all := map[string]any{"overview": o}
	for table := tui.Executions; table <= tui.Events; table++ {
		for _, row := range rows(t, f, table, 7) {
			key := fmt.Sprintf("%d/%s", table, row.ID)
			all[key] = row
			if table != tui.Executions {
				all[key+"/detail"] = ok(f.Detail(ctx, table, row.ID))
			}
		}
	}
	for _, row := range rows(t, f, tui.Executions, 100) {
		x := ok(f.Execution(ctx, row.ID))
		x.Document = nil
		all["execution/"+row.ID] = x
		all["history/"+row.ID] = history(t, f, row.ID)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func done(err error) {
	if err != nil {
		panic(err)
	}
}

// ok returns v, or panics on an error.
func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// rows returns all rows of a table, read in pages. Reading from the end must give the same
// rows.
func rows(t *testing.T, f *playback.Playback, table tui.Table, limit int) []tui.Row {
	t.Helper()
	q := tui.Query{Table: table, Limit: limit}
	there := pages(t, f, q)
	q.Back = true
	if diff := cmp.Diff(there, pages(t, f, q)); diff != "" {
		t.Errorf("table %d from the end: %s", table, diff)
	}
	return there
}

func pages(t *testing.T, f *playback.Playback, q tui.Query) (all []tui.Row) {
	t.Helper()
	for {
		page := ok(f.Page(t.Context(), q))
		for i := range page.Rows {
			page.Rows[i].Cursor = ""
		}
		if q.Back {
			all = append(page.Rows, all...)
		} else {
			all = append(all, page.Rows...)
		}
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

// history returns the whole history of an execution.
func history(t *testing.T, f *playback.Playback, id string) (all []tui.Event) {
	t.Helper()
	for {
		part := ok(f.History(t.Context(), id, int64(len(all))))
		if len(part) == 0 {
			return all
		}
		all = append(all, part...)
	}
}

func move(t *testing.T, f *playback.Playback, m tui.Move) tui.Clock {
	t.Helper()
	done(f.Move(t.Context(), m))
	return ok(f.Overview(t.Context())).Clock
}

// stamp formats a time in a short form.
func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.999")
}
