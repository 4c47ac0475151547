package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
	"flunq.io/flunq/engine/store/stream"
)

func sorted(in []string) []string { return slices.Sorted(slices.Values(in)) }

// historyEvent returns an event of the execution.
func historyEvent(id string, typ event.Type) event.Event {
	return event.Event{
		ID: id, Source: "/test", Type: typ, Time: time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC),
		Tenant: tenant, Workflow: "test.wf", Execution: execution, Data: json.RawMessage(`{"n":1}`),
	}
}

// step returns a commit of one history entry at a version.
func step(version int64, m *store.Message) store.Commit {
	return store.Commit{
		Message: m, Ack: m != nil, Tenant: tenant, Execution: execution, Version: version,
		History: []event.Event{historyEvent(fmt.Sprintf("h%d", version+1), event.TaskCompleted)},
		Publish: []event.Event{historyEvent(fmt.Sprintf("p%d", version+1), event.TaskRequested)},
		Status:  "running", Workflow: "test.wf", Definition: "abc", Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func (w *environment) commit(t *testing.T, c store.Commit, want store.Outcome) {
	t.Helper()
	got, err := w.Commit(t.Context(), c)
	must(t, err)
	if got != want {
		t.Fatalf("outcome %d, want %d", got, want)
	}
}

var commits = []check{
	{"a commit writes history, execution and stream, and acknowledges", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("in", event.ExecutionStarted), store.WorkerGroup, "w1")
		c := step(0, &m)
		c.History = append(c.History, historyEvent("h2", event.TaskCompleted))
		c.Snapshot, c.Listen = []byte(`{"s":1}`), []string{"com.paid", "*"}
		w.commit(t, c, store.Committed)
		x, err := w.Execution(t.Context(), tenant, execution)
		must(t, err)
		want := store.Execution{
			Tenant: tenant, ID: execution, Workflow: "test.wf", Definition: "abc", Status: "running", Version: 2,
			CreatedAt: c.Now, Snapshot: []byte(`{"s":1}`), SnapshotVersion: 2,
		}
		if diff := cmp.Diff(want, x); diff != "" {
			t.Error(diff)
		}
		history, err := w.History(t.Context(), tenant, execution, 0, 10)
		must(t, err)
		if diff := cmp.Diff(c.History, history); diff != "" {
			t.Error(diff)
		}
		if rest, _ := w.History(t.Context(), tenant, execution, 1, 10); len(rest) != 1 || rest[0].ID != "h2" {
			t.Errorf("after version 1 there is %v, want h2", rest)
		}
		if n := w.pending(t, store.WorkerGroup); n != 0 {
			t.Errorf("%d entries pending, want none", n)
		}
		if ids := w.rdb.XRange(t.Context(), historyKey, "-", "+").Val(); ids[0].ID != "1-0" || ids[1].ID != "2-0" {
			t.Errorf("history entries %v, want 1-0 and 2-0", ids)
		}
		got, err := stream.New(w.Store).Read(t.Context(), reader(store.ExecutorGroup, "e1"), 10, 0)
		published := got.Messages
		must(t, err)
		if len(published) != 2 || cmp.Diff(c.Publish[0], published[1].Event) != "" {
			t.Errorf("the executors read %v, want what came in and %v", published, c.Publish)
		}
		ids, err := w.Listeners(t.Context(), tenant, "com.paid")
		must(t, err)
		if !slices.Equal(ids, []string{execution}) {
			t.Errorf("listeners %v, want the execution once", ids)
		}
	}},
	{"another version is a conflict that changes nothing", func(t *testing.T, w *environment) {
		w.commit(t, step(0, nil), store.Committed)
		for _, version := range []int64{0, 2} {
			err := w.unchanged(t, func() error { w.commit(t, step(version, nil), store.Conflict); return nil })
			must(t, err)
		}
	}},
	{"a decision based on a lost transition is rejected, whatever its version", func(t *testing.T, w *environment) {
		w.commit(t, step(0, nil), store.Committed)
		done, err := w.CommitAll(t.Context(), []store.Commit{step(0, nil), step(1, nil)})
		must(t, err)
		if done[0].Outcome != store.Conflict || done[1].Outcome != store.Conflict {
			t.Errorf("outcomes %v, want two conflicts", done)
		}
		other := step(0, nil)
		other.Execution, other.History[0].Execution = "other", "other"
		bad := step(1, nil)
		bad.History[0].Ext = map[string]string{}
		for i := range 2000 {
			bad.History[0].Ext[fmt.Sprint("x", i)] = "1"
		}
		done, err = w.CommitAll(t.Context(), []store.Commit{bad, step(1, nil), other})
		must(t, err)
		if done[0].Err == nil || done[1].Outcome != store.Conflict || done[2].Outcome != store.Committed {
			t.Errorf("outcomes %v, want an error, a conflict, and the other execution's", done)
		}
	}},
	{"many transitions are written in order", func(t *testing.T, w *environment) {
		var commits []store.Commit
		for v := range int64(250) {
			commits = append(commits, step(v, nil))
		}
		done, err := w.CommitAll(t.Context(), commits)
		must(t, err)
		for i, d := range done {
			if d.Err != nil || d.Outcome != store.Committed {
				t.Fatalf("transition %d: %v", i, d)
			}
		}
		if x, err := w.Execution(t.Context(), tenant, execution); err != nil || x.Version != 250 {
			t.Errorf("version %d, %v, want 250", x.Version, err)
		}
	}},
	{"events that share attributes are each written unchanged", func(t *testing.T, w *environment) {
		c := step(0, nil)
		c.History, c.Publish = nil, nil
		for i := range 300 { // more times than a shape tells apart
			e := historyEvent(fmt.Sprint("h", i), event.TaskRequested)
			e.Time = e.Time.Add(time.Duration(i) * time.Second)
			e.Source = fmt.Sprint("/test/", i%3)
			if i%4 > 0 {
				e.Task = fmt.Sprint("/do/", i%7)
			}
			if i%11 == 0 {
				e.Ext = map[string]string{"odd": "1"}
			}
			if i%5 == 0 {
				published := e
				if e.Task != "" && e.Ext == nil {
					published.Ext = map[string]string{event.DefinitionAttribute: "abc"}
				}
				c.Publish = append(c.Publish, published)
			}
			c.History = append(c.History, e)
		}
		other := step(300, nil)
		w.commitBoth(t, c, other)
		history, err := w.History(t.Context(), tenant, execution, 0, 1000)
		must(t, err)
		if diff := cmp.Diff(append(slices.Clone(c.History), other.History...), history); diff != "" {
			t.Error(diff)
		}
		published, err := stream.New(w.Store).Read(t.Context(), reader(store.ExecutorGroup, "e1"), 1000, 0)
		must(t, err)
		var got []event.Event
		for _, m := range published.Messages {
			got = append(got, m.Event)
		}
		if diff := cmp.Diff(append(slices.Clone(c.Publish), other.Publish...), got); diff != "" {
			t.Error(diff)
		}
	}},
	{"the events of a loop are written unchanged", func(t *testing.T, w *environment) {
		first := step(0, nil)
		first.History, first.Publish = first.History[:1], nil
		c := step(1, nil)
		c.History, c.Publish = nil, nil
		for i := range 400 { // beyond the entries that are short, and a page of them
			e := historyEvent(fmt.Sprintf("%s/%d", execution, i+2), event.TaskRequested)
			e.Task = fmt.Sprintf("/do/0/loop/do/%d/t#%d", i%2, i/2)
			e.Data = fmt.Appendf(nil, `{"task_id":%q,"task_name":"t","task_type":"set"}`, e.Task)
			switch {
			case i%2 == 1:
				e.Type = event.TaskCompleted
				e.Task = c.History[i-1].Task
				e.Data = fmt.Appendf(nil, `{"task_id":%q,"success":true,"output":{"n":%d}}`, e.Task, i)
			case i%50 == 0: // its own words
				e.Data = fmt.Appendf(nil, `{"task_id":%q,"task_name":"u%d","task_type":"set"}`, e.Task, i)
			case i%70 == 0:
				e.Task, e.ID = "/do/0/\"#"+strconv.Itoa(i), "other"
			case i%90 == 0:
				e.Data = nil
			case i%130 == 0:
				e.Task = ""
			}
			c.History = append(c.History, e)
			if i%60 < 4 {
				c.Publish = append(c.Publish, e)
			}
			if i%100 == 3 {
				e.ID, e.Task = "p"+strconv.Itoa(i), "/do/9"
				c.Publish = append(c.Publish, e)
			}
		}
		w.commitBoth(t, first, c)
		history, err := w.History(t.Context(), tenant, execution, 1, 1000)
		must(t, err)
		if diff := cmp.Diff(c.History, history); diff != "" {
			t.Error(diff)
		}
		published, err := stream.New(w.Store).Read(t.Context(), reader(store.ExecutorGroup, "e1"), 1000, 0)
		must(t, err)
		var got []event.Event
		for _, m := range published.Messages {
			got = append(got, m.Event)
		}
		if diff := cmp.Diff(c.Publish, got); diff != "" {
			t.Error(diff)
		}
	}},
	{"a message that was claimed by another consumer is fenced", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("in", event.ExecutionStarted), store.WorkerGroup, "w1")
		stolen := w.claimByOther(t, m)
		must(t, w.unchanged(t, func() error { w.commit(t, step(0, &m), store.Fenced); return nil }))
		w.commit(t, step(0, &stolen), store.Committed)
		must(t, w.unchanged(t, func() error { w.commit(t, step(1, &stolen), store.Fenced); return nil }))
	}},
	{"without Ack the message stays pending", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("in", event.ExecutionStarted), store.WorkerGroup, "w1")
		c := step(0, &m)
		c.Ack = false
		w.commit(t, c, store.Committed)
		w.commit(t, step(1, &m), store.Committed)
		if n := w.pending(t, store.WorkerGroup); n != 0 {
			t.Errorf("%d entries pending, want none", n)
		}
	}},
	{"Redis refuses a version that the history already has", func(t *testing.T, w *environment) {
		w.commit(t, step(0, nil), store.Committed)
		must(t, w.rdb.HSet(t.Context(), executionKey, "version", 0).Err())
		err := w.unchanged(t, func() error { _, err := w.Commit(t.Context(), step(0, nil)); return err })
		if err == nil || store.Temporary(err) {
			t.Errorf("error %v, want one that does not go away", err)
		}
	}},
	{"a key of another type leaves nothing half written", func(t *testing.T, w *environment) {
		keys := []string{executionKey, historyKey, timersKey, streamKey, "tenant:acme:listen:a", "tenant:acme:listen:b"}
		for _, key := range keys {
			must(t, w.rdb.FlushDB(t.Context()).Err())
			must(t, w.rdb.Set(t.Context(), key, "mine", 0).Err())
			c := step(0, nil)
			c.Cancel, c.Listen, c.Unlisten = []event.Timer{timer(0)}, []string{"a"}, []string{"b"}
			err := w.unchanged(t, func() error { _, err := w.Commit(t.Context(), c); return err })
			if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || store.Temporary(err) {
				t.Errorf("%s of another type: error %v, want WRONGTYPE, which does not go away", key, err)
			}
		}
	}},
	{"more attributes than a script takes leave nothing half written", func(t *testing.T, w *environment) {
		for _, where := range []string{"history", "publish"} {
			c := step(0, nil)
			big := historyEvent("big", "com.big")
			big.Ext = map[string]string{}
			for i := range 9000 {
				big.Ext[fmt.Sprintf("a%d", i)] = "v"
			}
			if where == "history" {
				c.History = append(c.History, big)
			} else {
				c.Publish = append(c.Publish, big)
			}
			err := w.unchanged(t, func() error { _, err := w.Commit(t.Context(), c); return err })
			if err == nil || store.Temporary(err) {
				t.Errorf("in the %s: error %v, want one that does not go away", where, err)
			}
		}
	}},
	{"the end keeps the result and drops the working data", func(t *testing.T, w *environment) {
		c := step(0, nil)
		c.Snapshot, c.Listen = []byte(`{}`), []string{"a"}
		for i := range 9000 { // more than a script can unpack
			c.Cancel = append(c.Cancel, timer(time.Duration(i)*time.Second))
		}
		w.commit(t, c, store.Committed)
		last := step(1, nil)
		last.Status, last.Ended, last.Output, last.Unlisten = "completed", true, json.RawMessage(`{"paid":true}`), []string{"a"}
		w.commit(t, last, store.Committed)
		fields := w.rdb.HGetAll(t.Context(), executionKey).Val()
		want := map[string]string{
			"status": "completed", "version": "2", "workflow": "test.wf", "definition": "abc", "output": `{"paid":true}`,
			"created": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:00:00Z",
		}
		if diff := cmp.Diff(want, fields); diff != "" {
			t.Error(diff)
		}
		if ids, _ := w.Listeners(t.Context(), tenant, "a"); len(ids) != 0 {
			t.Errorf("%v still listens", ids)
		}
	}},
	{"a message of one tenant commits nothing of another", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("in", event.ExecutionStarted), store.WorkerGroup, "w1")
		c := step(0, &m)
		c.Tenant = "other"
		if _, err := w.Commit(t.Context(), c); !errors.Is(err, store.ErrName) {
			t.Errorf("error %v, want ErrName", err)
		}
	}},
}

var starts = []check{
	{"an execution starts once", func(t *testing.T, w *environment) {
		e := historyEvent("s", event.ExecutionStarted)
		must(t, w.Start(t.Context(), e))
		x, err := w.Execution(t.Context(), tenant, execution)
		must(t, err)
		if x.Status != "pending" || x.Version != 0 || x.Workflow != "test.wf" || !x.CreatedAt.Equal(e.Time) {
			t.Errorf("it is %+v", x)
		}
		err = w.unchanged(t, func() error { return w.Start(t.Context(), e) })
		if !errors.Is(err, store.ErrExists) {
			t.Errorf("the second start: %v, want ErrExists", err)
		}
		if got := w.read(t, store.WorkerGroup, "w1").Event; cmp.Diff(e, got) != "" {
			t.Error(cmp.Diff(e, got))
		}
		c := step(0, nil)
		w.commit(t, c, store.Committed)
	}},
	{"a start that cannot be published is no start", func(t *testing.T, w *environment) {
		must(t, w.rdb.FlushDB(t.Context()).Err())
		must(t, w.rdb.Set(t.Context(), streamKey, "mine", 0).Err())
		err := w.unchanged(t, func() error { return w.Start(t.Context(), historyEvent("s", event.ExecutionStarted)) })
		if err == nil {
			t.Error("no error")
		}
	}},
	{"names that cannot be part of a key are refused", func(t *testing.T, w *environment) {
		ctx := t.Context()
		for _, bad := range []string{"", "Acme", "a b", "-a", "a:b", "a}b", strings.Repeat("a", 64), "ä", "a\n"} {
			e := historyEvent("s", event.ExecutionStarted)
			e.Tenant = bad
			_, readErr := w.Execution(ctx, bad, execution)
			_, historyErr := w.History(ctx, bad, execution, 0, 1)
			_, _, definitionErr := registry.New(w.Store).Definition(ctx, bad, "a.b", "")
			_, defineErr := registry.New(w.Store).Define(ctx, bad, "a.b", "1.0.0", "")
			_, listenErr := w.Listeners(ctx, bad, "a")
			_, commitErr := w.Commit(ctx, store.Commit{Tenant: bad, Execution: execution})
			_, blockErr := stream.New(w.Store).Read(ctx, stream.Reader{Group: "g", Consumer: "c", Tenants: []string{bad}}, 1, 0)
			for i, err := range []error{
				stream.New(w.Store).Groups(ctx, bad), w.Publish(ctx, e), w.Start(ctx, e), readErr, historyErr,
				definitionErr, defineErr, listenErr, commitErr, blockErr,
			} {
				if !errors.Is(err, store.ErrName) {
					t.Errorf("tenant %q, call %d: %v, want ErrName", bad, i, err)
				}
			}
		}
		for _, bad := range []string{"", "x-1:history"} {
			e := historyEvent("s", event.ExecutionStarted)
			e.Execution = bad
			if err := w.Start(ctx, e); !errors.Is(err, store.ErrName) {
				t.Errorf("execution %q: %v, want ErrName", bad, err)
			}
		}
		for _, good := range []string{"a", "0", "a.b-c_d", strings.Repeat("a", 63)} {
			must(t, store.CheckTenant(good))
		}
	}},
	{"unknown executions are not found", func(t *testing.T, w *environment) {
		if _, err := w.Execution(t.Context(), tenant, "nobody"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		if h, err := w.History(t.Context(), tenant, "nobody", 0, 10); err != nil || len(h) != 0 {
			t.Errorf("history %v, %v, want none", h, err)
		}
	}},
}

// commitBoth commits two transitions, which must both succeed.
func (w *environment) commitBoth(t *testing.T, first, second store.Commit) {
	t.Helper()
	done, err := w.CommitAll(t.Context(), []store.Commit{first, second})
	must(t, err)
	if done[0] != (store.Committing{}) || done[1] != (store.Committing{}) {
		t.Fatalf("outcomes %v, want both committed", done)
	}
}
