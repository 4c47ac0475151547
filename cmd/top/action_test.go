package top_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/recording"
	"flunq.io/flunq/tui"
)

// plan returns the plan of an action as text.
func (w *environment) plan(a tui.Action) (text, warning string) {
	w.Helper()
	p := must(w.source.Plan(w.Context(), a))(w)
	return strings.Join(p.Lines, "\n"), p.Warning
}

func (w *environment) do(a tui.Action) string {
	w.Helper()
	return must(w.source.Do(w.Context(), a))(w)
}

// wants checks that text contains all parts.
func wants(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}

func TestTimerActions(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	stop := w.run()
	for _, id := range []string{"one", "two", "three"} {
		w.start(id, "nap", nap)
	}
	one, two, three := w.timerOf("one"), w.timerOf("two"), w.timerOf("three")
	fire := tui.Action{Verb: tui.Fire, Table: tui.Timers, IDs: []string{one.ID}}
	text, warning := w.plan(fire)
	wants(t, text, "fire 1 timer of tenant default", "wait of one /do/0/rest fires now: the execution continues")
	if n := w.rdb.ZCard(t.Context(), "flunq:timers:all").Val(); n != 3 || warning != "" {
		t.Errorf("after a plan there are %d timers; warning: %q", n, warning)
	}
	wants(t, w.do(fire), "fired the wait of one /do/0/rest")
	w.becomes("one", tui.Completed)
	if _, err := w.source.Do(t.Context(), fire); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("fired twice: %v", err)
	}

	move := tui.Action{Verb: tui.Reschedule, Table: tui.Timers, IDs: []string{two.ID}, Text: "+2h"}
	text, _ = w.plan(move)
	wants(t, text, "reschedule 1 timer", "is due at "+two.At.Add(2*time.Hour).Format(time.RFC3339Nano))
	w.do(move)
	moved := w.timerOf("two")
	if !moved.At.Equal(two.At.Add(2*time.Hour)) || moved.Kind != "wait (moved)" || moved.ID == two.ID {
		t.Errorf("moved: %+v, was %+v", moved, two)
	}
	for text, want := range map[string]time.Time{
		"-30m": moved.At.Add(-30 * time.Minute), "2099-01-01T00:00:00Z": time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		plan, _ := w.plan(tui.Action{Verb: tui.Reschedule, Table: tui.Timers, IDs: []string{moved.ID}, Text: text})
		wants(t, plan, want.Format(time.RFC3339Nano))
	}
	plan, _ := w.plan(tui.Action{Verb: tui.Reschedule, Table: tui.Timers, IDs: []string{moved.ID}, Text: "10m"})
	wants(t, plan, "in 10m00s")
	if _, err := w.source.Plan(t.Context(), tui.Action{Verb: tui.Reschedule, Table: tui.Timers, IDs: []string{moved.ID}, Text: "soon"}); err == nil {
		t.Error("soon is a moment")
	}

	drop := tui.Action{Verb: tui.Cancel, Table: tui.Timers, IDs: []string{three.ID, moved.ID, "zzz-0000000000"}}
	text, warning = w.plan(drop)
	wants(t, text, "never fires: execution three would wait forever", "not: timer zzz-0000000000")
	if want := "'flunq timers restore EXECUTION' restores timers."; warning != want {
		t.Errorf("the loss of a timer that is needed: warning %q, want %q", warning, want)
	}
	if _, err := w.source.Do(t.Context(), drop); err == nil || !strings.Contains(err.Error(), "is needed") {
		t.Errorf("cancelled without force: %v", err)
	}

	stop()
	w.rdb.Del(t.Context(), "tenant:default:events")
	text, _ = w.plan(tui.Action{Verb: tui.Fire, Table: tui.Timers, IDs: []string{three.ID}})
	wants(t, text, "no process runs the worker")
	drop.Force = true
	wants(t, w.do(drop), "cancelled 2 timers; 1 refused")
	if n := w.rdb.ZCard(t.Context(), "flunq:timers:all").Val(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}

func TestExecutionActions(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	stop := w.run()
	url, _ := w.host()
	w.start("one", "nap", nap)
	w.start("two", "nap", nap)
	w.start("bad", "bad", "do: [{ask: {call: http, with: {method: get, endpoint: "+url+"/fail}}}]")
	w.becomes("one", tui.Waiting)
	w.becomes("two", tui.Waiting)
	w.becomes("bad", tui.Faulted)
	on := func(verb tui.Verb, ids ...string) tui.Action {
		return tui.Action{Verb: verb, Table: tui.Executions, IDs: ids, Text: "because"}
	}
	text, _ := w.plan(on(tui.Suspend, "one", "bad"))
	wants(t, text, "suspend 2 executions of tenant default", "one (waiting) starts no new task", "not: execution bad is already faulted")
	wants(t, w.do(on(tui.Suspend, "one")), "suspend requested: one")
	w.becomes("one", tui.Suspended)
	if _, err := w.source.Plan(t.Context(), on(tui.Suspend, "one")); err == nil {
		t.Error("suspended twice")
	}
	wants(t, w.do(on(tui.Resume, "one")), "resume requested: one")
	w.becomes("one", tui.Waiting)
	text, warning := w.plan(on(tui.Cancel, "one", "two"))
	wants(t, text, "cancel 2 executions", "two (waiting) ends")
	if warning != "This cannot be undone." {
		t.Errorf("the end of an execution: warning %q", warning)
	}
	wants(t, w.do(on(tui.Cancel, "one", "two")), "cancel requested for 2 executions")
	w.becomes("one", tui.Cancelled)
	w.becomes("two", tui.Cancelled)
	events := must(w.source.History(t.Context(), "one", 0))(t)
	if last := events[len(events)-1]; last.State != tui.Cancelled {
		t.Errorf("the history ends with %+v", last)
	}
	before := must(w.store.Execution(t.Context(), tenant, "bad"))(t).Version
	wants(t, w.do(on(tui.Retry, "bad")), "retry requested: bad")
	w.until("it was retried", func() bool {
		return must(w.store.Execution(t.Context(), tenant, "bad"))(t).Version > before+1
	})
	stop()
	w.rdb.Del(t.Context(), "tenant:default:events")
	w.start("three", "nap", nap)
	text, _ = w.plan(on(tui.Cancel, "three"))
	wants(t, text, "no process runs the worker")
}

func TestDeadLetterActions(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var ids []string
	for i := range 14 {
		ids = append(ids, w.addDeadLetter(fmt.Sprintf("lost-%02d", i), "com.shop.paid", "no"))
	}
	replay := tui.Action{Verb: tui.Replay, Table: tui.DeadLetters, IDs: ids[:2]}
	text, warning := w.plan(replay)
	wants(t, text, "replay 2 dead letters of tenant default", ids[0]+" com.shop.paid: a replay returns it to its stream")
	if n := w.rdb.XLen(t.Context(), "tenant:default:events").Val(); n != 0 || warning != "" {
		t.Errorf("after a plan the stream has %d entries; warning: %q", n, warning)
	}
	wants(t, w.do(replay), "replayed 2 dead letters")
	entries := w.rdb.XRange(t.Context(), "tenant:default:events", "-", "+").Val()
	if len(entries) != 2 || entries[0].Values["id"] != "lost-00" || entries[1].Values["replay"] != "1" {
		t.Errorf("in the stream: %v", entries)
	}
	drop := tui.Action{Verb: tui.Drop, Table: tui.DeadLetters, IDs: ids[1:]}
	text, warning = w.plan(drop)
	wants(t, text, "drop 13 dead letters", "it is lost", "and 2 more", "not: dead letter "+ids[1])
	if warning != "This cannot be undone." {
		t.Errorf("the loss of dead letters: warning %q", warning)
	}
	wants(t, w.do(drop), "dropped 12 dead letters; 1 refused")
	if n := w.rdb.XLen(t.Context(), "tenant:default:events:dlq").Val(); n != 0 {
		t.Errorf("%d dead letters are left", n)
	}
	trail := w.rdb.XRange(t.Context(), "tenant:default:audit", "-", "+").Val()
	if len(trail) != 14 || trail[0].Values["action"] != "dlq replay" || trail[13].Values["action"] != "dlq drop" || trail[0].Values["by"] == "" {
		t.Errorf("the trail is %v", trail)
	}
}

func TestEmit(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.run()
	emit := func(text string) tui.Action { return tui.Action{Verb: tui.Emit, Text: text} }
	text, _ := w.plan(emit("{type: com.shop.paid}"))
	wants(t, text, "send the event com.shop.paid from /flunq/cli", "no execution listens")
	w.start("hearer", "hearer", "do: [{hear: {listen: {to: {one: {with: {type: com.shop.paid}}}}}}]")
	w.becomes("hearer", tui.Waiting)
	text, _ = w.plan(emit("{type: com.shop.paid}"))
	wants(t, text, "1 execution may receive it: hearer")
	wants(t, w.do(emit(`{"type": "com.shop.paid", "id": "e-1", "source": "/shop", "data": {"n": 1.50}, "subject": "order-7"}`)),
		"sent e-1: 1 execution listens for com.shop.paid")
	w.becomes("hearer", tui.Completed)
	events := w.page(tui.Query{Table: tui.Events, Filter: tui.ParseFilter(tui.Events, "kind:com.shop.paid"), Limit: 1}).Rows
	d := must(w.source.Detail(t.Context(), tui.Events, events[0].ID))(t)
	wants(t, fmt.Sprint(d), "[subject order-7]", `{"n":1.5}`, "[source /shop]")
	for text, want := range map[string]string{
		"":                                     "want an event",
		"[1]":                                  "want an event",
		"{":                                    "cannot be read as JSON or YAML",
		"{source: /shop}":                      "has no type",
		"{type: io.flunq.task.completed}":      "reserved for the engine",
		"{type: a, tenantid: other}":           "the engine sets",
		"{type: a, Big: x}":                    "lower-case",
		"{type: a, list: [1]}":                 "want a string",
		"{type: a, source: ''}":                "non-empty",
		"{type: 7}":                            "non-empty",
		"{type: a, \"sub\\u001bject\": \"x\"}": "lower-case",
	} {
		if _, err := w.source.Plan(t.Context(), emit(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("emit %s: %v, want %s", text, err, want)
		}
	}
}

// A recording is a file that replays.
func TestRecord(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.run()
	w.start("done", "done", "do: [{first: {set: {n: 1}}}]")
	w.becomes("done", tui.Completed)
	record := tui.Action{Verb: tui.Record, Table: tui.Executions, IDs: []string{"done"}, Text: "done.jsonl"}
	text, _ := w.plan(record)
	file := filepath.Join(w.folder, "done.jsonl")
	wants(t, text, "write the history of done", file)
	if _, err := os.Stat(file); err == nil {
		t.Error("a plan has written a file")
	}
	wants(t, w.do(record), "to "+file)
	text = string(must(os.ReadFile(file))(t))
	if _, err := recording.Read(file, []byte(text), nil, "1.2.3"); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
	wants(t, text, `"record":"header"`, `"execution":"done"`, `"record":"result"`, `"status":"completed"`)
	if _, err := w.source.Do(t.Context(), record); !errors.Is(err, os.ErrExist) {
		t.Errorf("overwritten: %v", err)
	}
	if _, err := w.source.Plan(t.Context(), tui.Action{Verb: tui.Record, IDs: []string{"nobody"}}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the recording of nobody: %v", err)
	}
}

// Impossible actions are refused and change nothing.
func TestNoSuchAction(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	for _, a := range []tui.Action{
		{Verb: tui.Fire, Table: tui.Executions, IDs: []string{"x"}},
		{Verb: tui.Fire, Table: tui.Timers},
		{Verb: tui.Replay, Table: tui.Timers, IDs: []string{"x"}},
		{Verb: "explode", Table: tui.Timers, IDs: []string{"x"}},
		{Verb: tui.Record},
	} {
		if _, err := w.source.Plan(t.Context(), a); err == nil || errors.Is(err, tui.ErrLost) {
			t.Errorf("%v: %v", a, err)
		}
		if _, err := w.source.Do(t.Context(), a); err == nil {
			t.Errorf("%v was done", a)
		}
	}
}

// If an action is possible on none of many items, the reasons of the first are listed, and the others counted.
func TestNoneOfMany(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	ids := make([]string, 1300)
	for i := range ids {
		ids[i] = fmt.Sprintf("order-%d", i)
	}
	_, err := w.source.Plan(t.Context(), tui.Action{Verb: tui.Cancel, Table: tui.Executions, IDs: ids})
	if err == nil || strings.Count(err.Error(), "\n") != 10 || !strings.HasSuffix(err.Error(), "\nand 1,290 more") {
		t.Errorf("%v, want ten reasons and the number of the others", err)
	}
}
