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
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
	"flunq.io/flunq/engine/store/stream"
)

// createdAt returns the creation time of these tests' executions, plus some milliseconds.
func createdAt(ms int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// started starts an execution of a workflow at a time.
func (w *environment) started(t *testing.T, id, workflow string, at time.Time) {
	t.Helper()
	e := historyEvent(id+"/start", event.ExecutionStarted)
	e.Execution, e.Workflow, e.Time = id, workflow, at
	must(t, w.Start(t.Context(), e))
}

// reaches commits a step that gives an execution a status.
func (w *environment) reaches(t *testing.T, id, status string, version int64) {
	t.Helper()
	c := step(version, nil)
	c.Execution, c.Status, c.Workflow = id, status, ""
	c.Ended = slices.Contains([]string{"completed", "faulted", "cancelled"}, status)
	if x, err := w.Execution(t.Context(), tenant, id); err == nil {
		c.Started = x.CreatedAt
	}
	w.commit(t, c, store.Committed)
}

// listed returns the ids of all pages of a query, which must be the same in both directions.
func (w *environment) listed(t *testing.T, q store.ExecutionQuery) []string {
	t.Helper()
	there := w.listedOneWay(t, q)
	q.Back = true
	if back := w.listedOneWay(t, q); q.After == "" && !slices.Equal(there, back) {
		t.Errorf("from the end: %s", cmp.Diff(there, back))
	}
	return there
}

func (w *environment) listedOneWay(t *testing.T, q store.ExecutionQuery) []string {
	t.Helper()
	var out []string
	for {
		found, next, err := w.Executions(t.Context(), tenant, q)
		must(t, err)
		if len(found) > q.Limit {
			t.Fatalf("a page of %d, want at most %d", len(found), q.Limit)
		}
		var page []string
		for _, x := range found {
			page = append(page, x.ID)
		}
		if q.Back {
			page, out = out, page
		}
		out = append(out, page...)
		if next == "" {
			return out
		}
		q.After = next
	}
}

// indexes returns the indexes that hold an execution.
func (w *environment) indexes(t *testing.T, id string) string {
	t.Helper()
	var out []string
	for _, index := range []string{"open", "completed", "faulted", "cancelled"} {
		score, err := w.rdb.ZScore(t.Context(), "tenant:acme:executions:"+index, id).Result()
		if !errors.Is(err, redis.Nil) {
			must(t, err)
			out = append(out, fmt.Sprintf("%s %.0f", index, score))
		}
	}
	return strings.Join(out, ", ")
}

var executionLists = []check{
	{"pages are complete and in order, even if many executions begin at the same moment", func(t *testing.T, w *environment) {
		var want []string
		for i := range 60 {
			id := fmt.Sprintf("x-%02d", i)
			w.started(t, id, "test.wf", createdAt(i/20))
			want = append(want, id)
			if status := []string{"", "completed", "faulted", "cancelled", "waiting"}[i%5]; status != "" {
				w.reaches(t, id, status, 0)
			}
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 7, 20, 60, 100, 3000} {
			if diff := cmp.Diff(want, w.listed(t, store.ExecutionQuery{Limit: limit})); diff != "" {
				t.Errorf("limit %d: %s", limit, diff)
			}
		}
		faulted := w.listed(t, store.ExecutionQuery{Statuses: []string{"faulted", "waiting"}, Limit: 5})
		if len(faulted) != 24 || faulted[0] != "x-59" || faulted[23] != "x-02" {
			t.Errorf("faulted and waiting: %v", faulted)
		}
		pending := w.listed(t, store.ExecutionQuery{Statuses: []string{"pending"}, Limit: 5})
		if len(pending) != 12 || pending[0] != "x-55" {
			t.Errorf("pending: %v", pending)
		}
	}},
	{"a list can be limited to a workflow and a time", func(t *testing.T, w *environment) {
		for i := range 10 {
			w.started(t, fmt.Sprint("x-", i), []string{"test.a", "test.b"}[i%2], createdAt(10*i))
		}
		for want, q := range map[string]store.ExecutionQuery{
			"x-9 x-7 x-5 x-3 x-1": {Workflow: "test.b"},
			"x-9 x-8":             {CreatedAfter: createdAt(70)},
			"x-1 x-0":             {CreatedBefore: createdAt(20)},
			"x-4":                 {CreatedAfter: createdAt(30).Add(time.Microsecond), CreatedBefore: createdAt(41), Workflow: "test.a"},
			"":                    {Workflow: "test.c"},
		} {
			q.Limit = 2
			if got := strings.Join(w.listed(t, q), " "); got != want {
				t.Errorf("%+v: %s, want %s", q, got, want)
			}
		}
	}},
	{"an execution is in one index, by the time of its creation", func(t *testing.T, w *environment) {
		w.started(t, execution, "test.wf", createdAt(5))
		at := strconv.FormatInt(createdAt(5).UnixMilli(), 10)
		for i, status := range []string{"", "running", "waiting", "suspended", "faulted", "running", "faulted", "completed"} {
			want := status
			switch status {
			case "completed", "faulted":
			default:
				want = "open"
			}
			if status != "" {
				w.reaches(t, execution, status, int64(i-1))
			}
			if got := w.indexes(t, execution); got != want+" "+at {
				t.Errorf("%s is in the indexes %s, want %s", status, got, want)
			}
		}
		// A child is not started: its first write is a commit.
		c := step(0, nil)
		c.Execution, c.Now = "x-1.1", createdAt(6)
		w.commit(t, c, store.Committed)
		if got := w.indexes(t, "x-1.1"); got != fmt.Sprint("open ", createdAt(6).UnixMilli()) {
			t.Errorf("a child is in the indexes %s", got)
		}
		if c, err := w.Counts(t.Context(), tenant); err != nil || c != (store.Counts{Open: 1, Completed: 1}) {
			t.Errorf("counts %+v, %v", c, err)
		}
	}},
	{"an execution that is retried has not ended", func(t *testing.T, w *environment) {
		w.started(t, execution, "test.wf", createdAt(0))
		c := step(0, nil)
		c.Status, c.Ended, c.Error = "faulted", true, json.RawMessage(`{"status":500}`)
		w.commit(t, c, store.Committed)
		w.commit(t, store.Commit{Tenant: tenant, Execution: execution, Version: 1, Status: "faulted", Now: createdAt(1)}, store.Committed)
		if x, _ := w.Execution(t.Context(), tenant, execution); x.Error == nil || x.EndedAt.IsZero() {
			t.Errorf("a commit without history has changed it: %+v", x)
		}
		w.commit(t, step(1, nil), store.Committed)
		x, err := w.Execution(t.Context(), tenant, execution)
		must(t, err)
		if x.Error != nil || !x.EndedAt.IsZero() || x.Status != "running" {
			t.Errorf("it is %+v", x)
		}
	}},
	{"an index of another type leaves nothing half written", func(t *testing.T, w *environment) {
		must(t, w.rdb.Set(t.Context(), "tenant:acme:executions:open", "mine", 0).Err())
		must(t, w.rdb.Set(t.Context(), "tenant:acme:workflows", "mine", 0).Err())
		for name, write := range map[string]func() error{
			"start":  func() error { return w.Start(t.Context(), historyEvent("s", event.ExecutionStarted)) },
			"commit": func() error { _, err := w.Commit(t.Context(), step(0, nil)); return err },
			"define": func() error {
				_, err := registry.New(w.Store).Define(t.Context(), tenant, "a.b", "1.0.0", "text")
				return err
			},
		} {
			err := w.unchanged(t, write)
			if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || store.Temporary(err) {
				t.Errorf("%s: %v, want WRONGTYPE", name, err)
			}
		}
	}},
	{"a page is cheap among 10,000 executions", func(t *testing.T, w *environment) {
		w.fill(t, 10_000)
		q := store.ExecutionQuery{Limit: 50, After: fmt.Sprintf("%d-x-005000", createdAt(5000).UnixMilli())}
		found, next, err := w.Executions(t.Context(), tenant, q)
		must(t, err)
		if len(found) != 50 || found[0].ID != "x-004999" || next != fmt.Sprintf("%d-x-004950", createdAt(4950).UnixMilli()) {
			t.Errorf("%d found from %v, next %s", len(found), found[0], next)
		}
		if got := w.listed(t, store.ExecutionQuery{Limit: 3000, Statuses: []string{"running"}}); len(got) != 5000 {
			t.Errorf("%d run, want 5000", len(got))
		}
		// A search that finds nothing scans a bounded number per call.
		if got := w.listed(t, store.ExecutionQuery{Limit: 50, Workflow: "no.such"}); got != nil {
			t.Errorf("found %v", got)
		}
	}},
	{"an invalid cursor is refused", func(t *testing.T, w *environment) {
		for _, bad := range []string{"x", "x-1", "-1-x", "12"} {
			_, _, err := w.Executions(t.Context(), tenant, store.ExecutionQuery{After: bad, Limit: 1})
			if !errors.Is(err, store.ErrName) {
				t.Errorf("%q: %v, want ErrName", bad, err)
			}
		}
		if _, _, err := w.Executions(t.Context(), "No", store.ExecutionQuery{Limit: 1}); !errors.Is(err, store.ErrName) {
			t.Errorf("tenant: %v, want ErrName", err)
		}
	}},
	{"workflows are listed with their versions, the newest first", func(t *testing.T, w *environment) {
		hashes := map[string]string{}
		for _, v := range []string{"ns.b 1.0.0", "ns.a 1.9.0", "ns.a 1.10.0", "ns.a 2.0.0-rc.1"} {
			id, version, _ := strings.Cut(v, " ")
			hash, err := registry.New(w.Store).Define(t.Context(), tenant, id, version, "text of "+v)
			must(t, err)
			hashes[v] = hash
		}
		want := []registry.Workflow{
			{ID: "ns.a", Latest: "2.0.0-rc.1", Versions: []registry.Version{
				{Version: "2.0.0-rc.1", Hash: hashes["ns.a 2.0.0-rc.1"]},
				{Version: "1.10.0", Hash: hashes["ns.a 1.10.0"]},
				{Version: "1.9.0", Hash: hashes["ns.a 1.9.0"]},
			}},
			{ID: "ns.b", Latest: "1.0.0", Versions: []registry.Version{{Version: "1.0.0", Hash: hashes["ns.b 1.0.0"]}}},
		}
		got, err := registry.New(w.Store).Workflows(t.Context(), tenant)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if other, err := registry.New(w.Store).Workflows(t.Context(), "other"); err != nil || len(other) != 0 {
			t.Errorf("of another tenant: %v, %v", other, err)
		}
	}},
	{"a tenant is listed once something is written for it", func(t *testing.T, w *environment) {
		ctx := t.Context()
		_, err := registry.New(w.Store).Define(ctx, "defined", "a.b", "1.0.0", "")
		must(t, err)
		e := historyEvent("s", event.ExecutionStarted)
		e.Tenant = "started"
		must(t, w.Start(ctx, e))
		must(t, stream.New(w.Store).Groups(ctx, "grouped"))
		e.Tenant = "published"
		must(t, w.Publish(ctx, e))
		got, err := w.Tenants(ctx)
		must(t, err)
		if diff := cmp.Diff([]string{"acme", "defined", "grouped", "started"}, got); diff != "" {
			t.Error(diff)
		}
		must(t, w.rdb.XAdd(ctx, &redis.XAddArgs{Stream: "tenant:acme:workflow:a.b:events", Values: []string{"a", "b"}}).Err())
		found, err := w.FindTenants(ctx)
		must(t, err)
		if diff := cmp.Diff([]string{"acme", "grouped", "published", "started"}, found); diff != "" {
			t.Error(diff)
		}
	}},
}

// fill writes executions to Redis as starts and commits would, one per
// millisecond; every other one has completed.
func (w *environment) fill(t *testing.T, n int) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		pipe := w.rdb.Pipeline()
		for i := from; i < min(n, from+1000); i++ {
			id, status, index := fmt.Sprintf("x-%06d", i), "running", "open"
			if i%2 == 1 {
				status, index = "completed", "completed"
			}
			pipe.HSet(t.Context(), "tenant:acme:execution:"+id, "status", status, "version", i, "workflow", "test.wf",
				"created", createdAt(i).Format(time.RFC3339Nano))
			pipe.ZAdd(t.Context(), "tenant:acme:executions:"+index, redis.Z{Score: float64(createdAt(i).UnixMilli()), Member: id})
		}
		_, err := pipe.Exec(t.Context())
		must(t, err)
	}
}
