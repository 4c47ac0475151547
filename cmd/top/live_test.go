package top_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/cmd/top"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

const nap = "do: [{rest: {wait: PT1H}}]"

func TestOverview(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	if o := w.overview(); len(o.Notes) == 0 || !strings.Contains(o.Notes[0], "no process runs the services") || o.Counts != (tui.Counts{}) {
		t.Errorf("before anything: %+v", o)
	}
	w.run()
	url, release := w.host()
	w.start("sleeper", "nap", nap)
	w.start("caller", "caller", "do: [{ask: {call: http, with: {method: get, endpoint: "+url+"/hang}}}]")
	w.start("broken", "broken", "do: [{fall: {raise: {error: {type: https://example.com/no, status: 418, title: no tea}}}}]")
	w.becomes("broken", tui.Faulted)
	w.becomes("sleeper", tui.Waiting)
	w.addDeadLetter("lost-1", "com.shop.paid", "nobody could read it")
	w.addStopped("old-worker")
	var o tui.Overview
	w.until("a task runs, a timer is set, and all have read", func() bool {
		before := o // an overview is not a snapshot of one moment
		o = w.overview()
		// Events that do not concern a service are pending until its next read.
		reading := slices.ContainsFunc(o.Services, func(s tui.Service) bool { return s.Alive == 0 || s.Pending > 1 })
		return len(before.Running) == 1 && len(before.Due) == 1 && !reading
	})
	if o.Counts.Open != 2 || o.Counts.Faulted != 1 || o.Counts.Timers != 1 || o.Counts.Dead != 1 || o.Counts.Overdue != 0 {
		t.Errorf("counts: %+v", o.Counts)
	}
	run := o.Running[0]
	if run.Execution != "caller" || run.Task != "/do/0/ask" || run.State != tui.Running || run.Kind != "call" || run.At.IsZero() || run.Workflow != "test.caller" {
		t.Errorf("running: %+v", run)
	}
	if due := o.Due[0]; due.Execution != "sleeper" || due.Kind != "wait" || due.State != tui.Waiting || due.At.Sub(o.Now) < 59*time.Minute {
		t.Errorf("due: %+v", due)
	}
	if len(o.Failed) != 2 || o.Failed[0].State != tui.Dead || o.Failed[0].Note != "nobody could read it" ||
		o.Failed[1].ID != "broken" || o.Failed[1].State != tui.Faulted || o.Failed[1].Note != "no tea" {
		t.Errorf("failed: %+v", o.Failed)
	}
	var names []string
	for _, s := range o.Services {
		names = append(names, s.Name)
		if s.Alive == 0 || s.Alive != len(s.Workers) {
			t.Errorf("service %+v", s)
		}
	}
	if !slices.Equal(names, []string{"worker", "executor", "timer"}) {
		t.Errorf("services %v", names)
	}
	if executor := o.Services[1]; executor.Busy != 1 || executor.Pending != 1 {
		t.Errorf("executor: %+v", executor)
	}
	if o.Clock.Moves || len(o.Notes) > 0 {
		t.Errorf("clock %+v, notes %v", o.Clock, o.Notes)
	}
	release()
	w.becomes("caller", tui.Completed)
	w.until("nothing runs", func() bool { return len(w.overview().Running) == 0 })
}

// A group that does not exist yet has the whole stream to read.
func TestUnread(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.start("early", "nap", nap)
	for _, group := range []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup} {
		w.rdb.XGroupDestroy(t.Context(), w.store.Keys().Stream(tenant), group)
	}
	for _, s := range w.overview().Services {
		if s.Lag != 1 {
			t.Errorf("service %+v", s)
		}
	}
}

// addStopped adds a process that was stopped, whose consumer is left.
func (w *environment) addStopped(consumer string) {
	w.Helper()
	p := &processes.Process{Name: "old", All: true, Services: []processes.Service{{Name: "worker", Group: store.WorkerGroup, Consumers: []string{consumer}}}}
	if err := errors.Join(
		processes.In(w.store).SignOff(w.Context(), p),
		w.rdb.XGroupCreateConsumer(w.Context(), w.store.Keys().Stream(tenant), store.WorkerGroup, consumer).Err(),
	); err != nil {
		w.Fatal(err)
	}
}

// Rates are those between two samples.
func TestRates(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	publish := func(n int, typ event.Type) {
		for i := range n {
			e := event.Event{ID: fmt.Sprint(typ, i), Source: "/test", Type: typ, Tenant: tenant, Time: time.Now()}
			if err := w.store.Publish(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(3, "com.shop.paid")
	before := time.Now()
	if o := w.overview(); o.Events == 0 || o.Fires != 0 {
		t.Errorf("at first %v events and %v fires in a second", o.Events, o.Fires)
	}
	began := time.Now()
	publish(300, event.TimerFired)
	publish(100, "com.shop.paid")
	w.until("there is a rate", func() bool {
		if time.Since(began) < 250*time.Millisecond {
			return false
		}
		o := w.overview()
		passed := time.Since(before).Seconds()
		// 28 of the last 128 were fired by a timer.
		if o.Events > 400/0.25 || o.Events < 200/passed || o.Fires > o.Events/2 || o.Fires == 0 {
			t.Errorf("%v events and %v fires a second, after %v seconds", o.Events, o.Fires, passed)
		}
		return true
	})
	time.Sleep(250 * time.Millisecond) // the minimum time between two samples
	if o := w.overview(); o.Events != 0 || o.Fires != 0 {
		t.Errorf("in the end %v events and %v fires a second", o.Events, o.Fires)
	}
}

// Executions are listed in pages, the newest first, and can be filtered.
func TestPageOfExecutions(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.run()
	for i := range 25 {
		w.start(fmt.Sprintf("nap-%02d", i), "nap", nap)
	}
	time.Sleep(2 * time.Millisecond) // those of one millisecond are sorted by their ids
	w.start("broken", "broken", "do: [{fall: {raise: {error: {type: https://example.com/no, status: 418}}}}]")
	w.becomes("broken", tui.Faulted)
	for i := range 25 {
		w.becomes(fmt.Sprintf("nap-%02d", i), tui.Waiting)
	}
	all := w.all(tui.Query{Table: tui.Executions, Limit: 10})
	if len(all) != 26 || all[0].ID != "broken" || all[1].ID != "nap-24" || all[25].ID != "nap-00" {
		t.Errorf("%d rows: %v", len(all), names(all))
	}
	if r := all[25]; r.State != tui.Waiting || r.Workflow != "test.nap" || r.Count == 0 || r.At.IsZero() || !r.Until.IsZero() || r.Cursor == "" {
		t.Errorf("row %+v", r)
	}
	if all[0].Until.IsZero() {
		t.Errorf("row %+v", all[0])
	}
	for filter, want := range map[string]int{
		"status:faulted": 1, "status:wait": 25, "status:nonsense": 0, "id:nap-1": 10, "nap-07": 1, "workflow:test.nap": 25,
		"faulted": 1, "nothing": 0, "test nap-0": 10, "ID:BROKEN": 1,
	} {
		got := w.all(tui.Query{Table: tui.Executions, Filter: tui.ParseFilter(tui.Executions, filter), Limit: 4})
		if len(got) != want {
			t.Errorf("%s: %v, want %d", filter, names(got), want)
		}
	}
}

// all returns a table, read in pages. Reading from the end must give the same rows.
func (w *environment) all(q tui.Query) []tui.Row {
	w.Helper()
	there := w.oneWay(q)
	q.Back = true
	if back := w.oneWay(q); q.After == "" && !slices.Equal(names(there), names(back)) {
		w.Errorf("from the end: %v, want %v", names(back), names(there))
	}
	return there
}

func (w *environment) oneWay(q tui.Query) (rows []tui.Row) {
	w.Helper()
	for {
		page := w.page(q)
		if len(page.Rows) > q.Limit {
			w.Errorf("%d rows on a page of %d", len(page.Rows), q.Limit)
		}
		if q.Back {
			rows = append(page.Rows, rows...)
		} else {
			rows = append(rows, page.Rows...)
		}
		if page.Next == "" {
			return rows
		}
		q.After = page.Next
	}
}

func names(rows []tui.Row) (out []string) {
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

func TestPageOfTimers(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	now := must(w.store.Now(t.Context()))(t)
	add := func(of, execution string, kind event.TimerKind, in time.Duration) {
		timer := event.Timer{Tenant: of, Workflow: "test.nap", Execution: execution, TaskID: "/do/0/rest", FireAt: now.Add(in), Kind: kind}
		_, score := timers.ID(timer)
		if err := w.rdb.ZAdd(t.Context(), "flunq:timers:all", redis.Z{Score: score, Member: string(event.Encode(timer))}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		add(tenant, fmt.Sprintf("x-%02d", i), event.WaitTimer, time.Duration(i+1)*time.Hour)
		add("other", fmt.Sprintf("x-%02d", i), event.WaitTimer, time.Duration(i+1)*time.Hour)
		add(tenant, fmt.Sprintf("same-%02d", i), event.RetryTimer, 100*time.Hour)
	}
	add(tenant, "late", event.TimeoutTimer, -time.Hour)
	w.rdb.ZAdd(t.Context(), "flunq:timers:all", redis.Z{Score: 5e9, Member: `{"tenant_id":"default","fire_at":7}`})
	all := w.all(tui.Query{Table: tui.Timers, Limit: 7})
	if len(all) != 62 || all[0].Execution != "late" || all[0].State != tui.Overdue || all[1].Execution != "x-00" || all[61].State != tui.Broken {
		t.Errorf("%d rows, %+v … %+v", len(all), all[0], all[len(all)-1])
	}
	for filter, want := range map[string]int{
		"execution:x-0": 10, "execution:x-29": 1, "kind:retry": 30, "status:overdue": 1, "unreadable": 1, "task:rest": 61, "nobody": 0,
		"workflow:nap kind:wait": 30, "id:" + all[5].ID: 1,
	} {
		got := w.all(tui.Query{Table: tui.Timers, Filter: tui.ParseFilter(tui.Timers, filter), Limit: 4})
		if len(got) != want {
			t.Errorf("%s: %v, want %d", filter, names(got), want)
		}
	}
	// A page may begin after a timer that no longer exists.
	half := w.page(tui.Query{Table: tui.Timers, Limit: 40})
	last := half.Rows[39]
	p := must(timers.New(w.store).Find(t.Context(), tenant, last.ID))(t)
	must(timers.New(w.store).Cancel(t.Context(), p, "ada"))(t)
	if rest := w.all(tui.Query{Table: tui.Timers, After: half.Next, Limit: 100}); len(rest) != 22 || rest[0].Execution == last.Execution {
		t.Errorf("behind a timer that is gone: %d rows %v", len(rest), rest[0])
	}
	d := must(w.source.Detail(t.Context(), tui.Timers, all[0].ID))(t)
	if !slices.Contains(d.Facts, [2]string{"then", "an event is published; no known execution waits for it"}) || len(d.Data) != 1 {
		t.Errorf("detail %+v", d)
	}
}

func TestPageOfStreams(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	for i := range 12 {
		w.addDeadLetter(fmt.Sprintf("lost-%02d", i), fmt.Sprintf("com.shop.type%d", i%2), "reason "+strings.Repeat("x", i))
	}
	deadLetters := w.all(tui.Query{Table: tui.DeadLetters, Limit: 5})
	if len(deadLetters) != 12 || deadLetters[0].Note != "reason "+strings.Repeat("x", 11) || deadLetters[0].Kind != "com.shop.type1" ||
		deadLetters[0].Count != 5 || deadLetters[0].State != tui.Dead {
		t.Errorf("%d dead letters: %+v", len(deadLetters), deadLetters)
	}
	if got := w.all(tui.Query{Table: tui.DeadLetters, Filter: tui.ParseFilter(tui.DeadLetters, "kind:type1 xxx"), Limit: 2}); len(got) != 5 {
		t.Errorf("dead letters of a filter: %v", names(got))
	}
	d := must(w.source.Detail(t.Context(), tui.DeadLetters, deadLetters[0].ID))(t)
	if len(d.Data) != 2 || d.Data[0].Text != `{"n":1}` || !slices.Contains(d.Facts, [2]string{"attempts", "5"}) {
		t.Errorf("detail of a dead letter: %+v", d)
	}
	long := `"` + strings.Repeat("y", 5000) + `"`
	for i := range 12 {
		e := event.Event{ID: strconv.Itoa(i), Source: "/test", Type: "com.shop.paid", Tenant: tenant, Execution: fmt.Sprintf("x-%02d", i), Data: []byte(long)}
		if err := w.store.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "tenant:default:events", Values: []string{"no", "event"}})
	events := w.all(tui.Query{Table: tui.Events, Limit: 5})
	if len(events) != 13 || events[0].State != tui.Broken || events[0].Kind != "unreadable" || events[1].Execution != "x-11" || events[1].Kind != "com.shop.paid" || events[1].Note != "" {
		t.Errorf("%d events: %+v", len(events), events)
	}
	if got := w.all(tui.Query{Table: tui.Events, Filter: tui.ParseFilter(tui.Events, "execution:x-0"), Limit: 3}); len(got) != 10 {
		t.Errorf("events of a filter: %v", names(got))
	}
	d = must(w.source.Detail(t.Context(), tui.Events, events[1].ID))(t)
	if len(d.Data) != 1 || d.Data[0].Text != long {
		t.Errorf("detail of an event: %d data", len(d.Data))
	}
	for table, id := range map[tui.Table]string{tui.Timers: "zzz-0000000000", tui.DeadLetters: "1-1", tui.Events: "1-1"} {
		if _, err := w.source.Detail(t.Context(), table, id); !errors.Is(err, store.ErrNotFound) || errors.Is(err, tui.ErrLost) {
			t.Errorf("detail of what is gone: %v", err)
		}
	}
}

// While Redis is unavailable, errors wrap ErrLost. Afterwards the source works again.
func TestLost(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := must(store.Dial(t.Context(), server.Addr()))(t)
	t.Cleanup(func() { _ = rdb.Close() })
	w := environmentOn(t, rdb)
	w.start("nap", "nap", nap)
	ask := map[string]func(context.Context) error{
		"overview":  func(ctx context.Context) error { _, err := w.source.Overview(ctx); return err },
		"page":      func(ctx context.Context) error { _, err := w.source.Page(ctx, tui.Query{}); return err },
		"execution": func(ctx context.Context) error { _, err := w.source.Execution(ctx, "nap"); return err },
		"history":   func(ctx context.Context) error { _, err := w.source.History(ctx, "nap", 0); return err },
		"plan": func(ctx context.Context) error {
			_, err := w.source.Plan(ctx, tui.Action{Verb: tui.Cancel, IDs: []string{"nap"}})
			return err
		},
	}
	for name, f := range ask {
		if err := f(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Kill()
	for name, f := range ask {
		if err := f(t.Context()); !errors.Is(err, tui.ErrLost) {
			t.Errorf("%s of a Redis that is gone: %v", name, err)
		}
	}
	if _, err := top.New(t.Context(), rdb, top.Defaults()); !errors.Is(err, tui.ErrLost) {
		t.Errorf("new on a Redis that is gone: %v", err)
	}
	server.Restart(t)
	for name, f := range ask {
		w.until(name+" answers", func() bool { return f(t.Context()) == nil })
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ask["overview"](ctx); errors.Is(err, tui.ErrLost) || err == nil {
		t.Errorf("the error of a cancelled call is %v", err)
	}
}

func TestExecution(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.run()
	url, release := w.host()
	w.start("child-of", "child", "do: [{wake: {set: {up: true}}}]")
	w.start("all", "all", `use: {functions: {knock: {call: http, with: {method: get, endpoint: `+url+`/hang}}}}
do:
  - first: {set: {n: 1}}
  - own: {run: {workflow: {namespace: test, name: child, version: latest}}}
  - each:
      for: {each: i, in: '${ [1, 2] }'}
      do: [{inner: {set: {n: '${ $i }'}}}]
  - trouble:
      try: [{ask: {call: http, with: {method: get, endpoint: `+url+`/fail}}}]
      catch: {do: [{mend: {set: {mended: true}}}]}
  - both: {fork: {branches: [{left: {set: {l: 1}}}, {right: {call: knock}}]}}
  - rest: {wait: PT1H}
  - hear: {listen: {to: {one: {with: {type: com.shop.paid}}}}}
`)
	var x tui.Execution
	w.until("it calls what hangs", func() bool {
		x = must(w.source.Execution(t.Context(), "all"))(t)
		return slices.ContainsFunc(x.Waits, func(s string) bool { return strings.Contains(s, "has no result yet") && !strings.Contains(s, "/ask") })
	})
	if x.Problem != "" || x.State != tui.Running || len(x.Children) != 1 || x.Children[0].ID != "all.1" || x.Children[0].Execution != "all" ||
		!strings.HasPrefix(x.Children[0].Task, "/do/1/own") {
		t.Errorf("%+v", x)
	}
	activities := must(w.source.Activities(t.Context(), []string{"child-of", "all"}))(t)
	if len(activities) != 2 || len(activities[0].Open) != 0 || len(activities[1].Open) != 1 || activities[1].Open[0].State != tui.Running ||
		!strings.HasPrefix(activities[1].Open[0].Task, "/do/4/both/fork/branches/1/right") && !strings.HasPrefix(activities[1].Open[0].Task, "/use/functions/knock") {
		t.Errorf("activities: %+v", activities)
	}
	if len(x.Data) == 0 || x.Data[0] != (tui.Data{Name: "input", Text: `{"order":7}`}) {
		t.Errorf("data %+v", x.Data)
	}
	checkDocument(t, x.Document)
	release()
	w.becomes("all", tui.Waiting)
	w.until("a timer is set", func() bool {
		x = must(w.source.Execution(t.Context(), "all"))(t)
		return len(x.Timers) == 1
	})
	if r := x.Timers[0]; r.Task != "/do/5/rest" || r.Kind != "wait" {
		t.Errorf("timer %+v", r)
	}
	must(w.source.Do(t.Context(), tui.Action{Verb: tui.Fire, Table: tui.Timers, IDs: []string{x.Timers[0].ID}}))(t)
	w.until("it listens", func() bool {
		x = must(w.source.Execution(t.Context(), "all"))(t)
		return len(x.Waits) == 1 && strings.Contains(x.Waits[0], "listens for com.shop.paid")
	})
	must(w.source.Do(t.Context(), tui.Action{Verb: tui.Emit, Text: "{type: com.shop.paid, data: {paid: true}, subject: x}"}))(t)
	w.becomes("all", tui.Completed)
	x = must(w.source.Execution(t.Context(), "all"))(t)
	if x.Version != x.Count || len(x.Data) != 2 || x.Data[1].Name != "output" || !strings.Contains(x.Data[1].Text, `"paid":true`) || x.Until.IsZero() {
		t.Errorf("in the end %+v", x)
	}
	w.checkHistory(x)
	if _, err := w.source.Execution(t.Context(), "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an execution that there is not: %v", err)
	}
}

func checkDocument(t *testing.T, d *tui.Document) {
	t.Helper()
	if d == nil || d.Name != "test.all:1.0.0" || !strings.Contains(d.Text, "use: {functions:") {
		t.Fatalf("document %+v", d)
	}
	tasks := map[string]tui.Task{}
	for _, task := range d.Tasks {
		tasks[task.Ref] = task
	}
	inside := func(ref string) (out []string) {
		for _, at := range tasks[ref].Children {
			out = append(out, d.Tasks[at].Ref)
		}
		return out
	}
	var roots []string
	for _, at := range d.Roots {
		roots = append(roots, d.Tasks[at].Name)
	}
	if diff := cmp.Diff([]string{"first", "own", "each", "trouble", "both", "rest", "hear"}, roots); diff != "" {
		t.Errorf("roots: %s", diff)
	}
	for ref, want := range map[string][]string{
		"/do/2/each":                       {"/do/2/each/do/0/inner"},
		"/do/3/trouble":                    {"/do/3/trouble/try/0/ask", "/do/3/trouble/catch/do/0/mend"},
		"/do/4/both":                       {"/do/4/both/fork/branches/0/left", "/do/4/both/fork/branches/1/right"},
		"/do/4/both/fork/branches/1/right": {"/use/functions/knock"},
	} {
		if diff := cmp.Diff(want, inside(ref)); diff != "" {
			t.Errorf("inside %s: %s", ref, diff)
		}
	}
	if rest := tasks["/do/5/rest"]; rest.Line != 13 || rest.Kind != "wait" || rest.Detail != "PT1H" {
		t.Errorf("task %+v", rest)
	}
}

// checkHistory checks the events of each task.
func (w *environment) checkHistory(x tui.Execution) {
	w.Helper()
	var all []tui.Event
	for {
		page := must(w.source.History(w.Context(), x.ID, int64(len(all))))(w)
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
	}
	if int64(len(all)) != x.Version {
		w.Fatalf("%d events, want %d", len(all), x.Version)
	}
	states := map[string][]tui.State{}
	for i, e := range all {
		if e.Version != int64(i+1) || e.At.IsZero() || strings.HasPrefix(e.Type, "io.flunq") {
			w.Errorf("event %+v", e)
		}
		if e.State != "" {
			states[e.Task] = append(states[e.Task], e.State)
		}
	}
	for task, want := range map[string][]tui.State{
		"":                                 {tui.Running, tui.Completed},
		"/do/0/first":                      {tui.Running, tui.Completed},
		"/do/2/each/do/0/inner#1":          {tui.Running, tui.Completed},
		"/do/3/trouble/try/0/ask":          {tui.Running, tui.Faulted},
		"/do/3/trouble":                    {tui.Running, tui.Completed},
		"/do/4/both/fork/branches/1/right": {tui.Running, tui.Completed},
		"/do/5/rest":                       {tui.Running, tui.Waiting, tui.Running, tui.Completed},
		"/do/6/hear":                       {tui.Waiting, tui.Completed},
	} {
		if diff := cmp.Diff(want, states[task]); diff != "" {
			w.Errorf("states of %q: %s", task, diff)
		}
	}
	first := must(w.source.Data(w.Context(), x.ID, 1))(w)
	if !strings.Contains(first, `"order":7`) {
		w.Errorf("data of the first event: %s", first)
	}
	if _, err := w.source.Data(w.Context(), x.ID, x.Version+1); !errors.Is(err, store.ErrNotFound) {
		w.Errorf("data of an event that there is not: %v", err)
	}
}

// If the state cannot be rebuilt, the timers are taken from the history.
func TestExecutionThatDiverges(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.run()
	w.start("other", "other", `do:
  - told:
      do: [{one: {set: {n: 1}}}]
      output: {as: "${ {version: $runtime.version} }"}
  - rest: {wait: PT1H}
`)
	w.becomes("other", tui.Waiting)
	w.rdb.HDel(t.Context(), "tenant:default:execution:other", "snapshot", "snapshot_version")
	for range 2 {
		var x tui.Execution
		w.until("its timer is set", func() bool {
			x = must(w.source.Execution(t.Context(), "other"))(t)
			return len(x.Timers) == 1
		})
		if !strings.Contains(x.Problem, "history diverges") || x.Timers[0].Task != "/do/1/rest" {
			t.Errorf("%+v", x)
		}
	}
}

// Notes list the open and half-open circuit breakers of all processes by host.
func TestCircuits(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	now := must(w.store.Now(t.Context()))(t)
	for i, circuits := range [][]processes.Circuit{
		{{Host: "pay.example", Failures: 10, Until: now.Add(time.Minute)}, {Host: "slow.example", Failures: 1, Until: now.Add(-time.Second)}},
		{{Host: "pay.example", Failures: 11, Until: now.Add(2 * time.Minute)}},
	} {
		p := processes.Process{Name: fmt.Sprintf("p-%d", i), All: true, Services: []processes.Service{{Name: "executor", Group: store.ExecutorGroup}}, Circuits: circuits}
		if err := processes.In(w.store).Register(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, strings.Join(w.overview().Notes, "\n"),
		"circuit breaker open: pay.example, no calls for ", " (11 failures in a row, in 2 processes)",
		"circuit breaker half-open: slow.example, the next call decides (1 failure in a row)")
}

// A bridge is listed as a service of its processes; without one, a note says what its group holds
// back.
func TestBridge(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	if err := w.store.Publish(t.Context(), event.Event{ID: "1", Source: "/s", Type: "com.example.a", Tenant: tenant}); err != nil {
		t.Fatal(err)
	}
	group := store.BridgePrefix + "kafka"
	if err := stream.New(w.store).Groups(t.Context(), tenant, group); err != nil {
		t.Fatal(err)
	}
	wants(t, strings.Join(w.overview().Notes, "\n"), "no process runs the bridge that reads as bridge-kafka: it is 1 entry behind, and the stream grows")
	for i := range 2 {
		services := []processes.Service{
			{Name: "bridge", Group: group, Consumers: []string{}}, {Name: "worker", Group: store.WorkerGroup}, {Name: "timer", Group: store.TimerGroup},
		}
		if err := processes.In(w.store).Register(t.Context(), &processes.Process{Name: fmt.Sprint("p-", i), All: true, Services: services}); err != nil {
			t.Fatal(err)
		}
	}
	o := w.overview()
	failing := []processes.Service{{Name: "bridge", Group: group, Failing: "topic x does not exist"}}
	if err := processes.In(w.store).Register(t.Context(), &processes.Process{Name: "p-0", All: true, Services: failing}); err != nil {
		t.Fatal(err)
	}
	wants(t, strings.Join(w.overview().Notes, "\n"), "the bridge of process p-0 fails: topic x does not exist")
	i := slices.IndexFunc(o.Services, func(s tui.Service) bool { return s.Name == "bridge" })
	if i < 0 || o.Services[i].Alive != 2 || o.Services[i].Lag != 1 || strings.Contains(strings.Join(o.Notes, "\n"), "bridge") {
		t.Errorf("services %+v, notes %v", o.Services, o.Notes)
	}
}
