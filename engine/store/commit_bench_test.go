package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

// cpuOf returns the CPU time of Redis.
func cpuOf(ctx context.Context, rdb wire.Redis) (sum float64) {
	for line := range strings.Lines(rdb.Info(ctx, "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return sum
}

// transitions are those of executions of one task: their first and their last.
type transitions struct {
	st   *store.Store
	n    int // executions by now
	from int // the first of the batch
}

// about returns an event of one of the executions.
func about(id int, n string, typ event.Type, task, data string) event.Event {
	x := fmt.Sprintf("01hx%010d", id)
	return event.Event{
		ID: x + "/" + n, Source: "/flunq/worker", Type: typ, Time: time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC),
		Tenant: tenant, Workflow: "bench.one", Execution: x, Task: task, Data: json.RawMessage(data),
	}
}

// batch is the number of transitions sent to Redis in one call.
const batch = 100

// read returns the next batch of messages.
func (t *transitions) read(b *testing.B) []store.Message {
	b.Helper()
	var out []store.Message
	for len(out) < batch {
		got, err := stream.New(t.st).Read(b.Context(), reader(store.WorkerGroup, "w1"), batch, 0)
		msgs := got.Messages
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range msgs {
			if m.Event.Type == event.ExecutionStarted || m.Event.Type == event.TaskCompleted {
				out = append(out, m)
			} else if err := stream.New(t.st).AcknowledgeOwned(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}
	}
	return out
}

// begun returns the commits that begin executions that have just been started.
func (t *transitions) begun(b *testing.B) []store.Commit {
	b.Helper()
	t.from = t.n
	for range batch {
		if err := t.st.Start(b.Context(), about(t.n, "1", event.ExecutionStarted, "", `{"input":{},"workflow":{"name":"one","namespace":"bench","version":"1.0.0"}}`)); err != nil {
			b.Fatal(err)
		}
		t.n++
	}
	var out []store.Commit
	for i, m := range t.read(b) {
		n := t.from + i
		requested := about(n, "3", event.TaskRequested, "/do/0/t0", `{"task_id":"/do/0/t0","task_name":"t0","task_type":"set","input":{},"config":{"set":{"n":1}}}`)
		out = append(out, store.Commit{
			Message: &m, Ack: true, Tenant: tenant, Execution: m.Event.Execution, Workflow: "bench.one", Definition: "abc", Status: "waiting",
			History: []event.Event{m.Event, requested}, Publish: []event.Event{requested}, Now: m.Event.Time, Started: m.Event.Time,
		})
	}
	return out
}

// ended returns the commits that end the executions that have just begun.
func (t *transitions) ended(b *testing.B) []store.Commit {
	b.Helper()
	for n := t.from; n < t.n; n++ {
		if err := t.st.Publish(b.Context(), about(n, "4", event.TaskCompleted, "/do/0/t0", `{"task_id":"/do/0/t0","output":{"n":1},"duration_ms":0}`)); err != nil {
			b.Fatal(err)
		}
	}
	var out []store.Commit
	for i, m := range t.read(b) {
		over := about(t.from+i, "5", event.WorkflowCompleted, "", `{"output":{"n":1}}`)
		out = append(out, store.Commit{
			Message: &m, Ack: true, Tenant: tenant, Execution: m.Event.Execution, Workflow: "bench.one", Version: 2, Status: "completed",
			History: []event.Event{m.Event, over}, Publish: []event.Event{over}, Now: m.Event.Time, Started: m.Event.Time,
			Ended: true, Output: json.RawMessage(`{"n":1}`),
		})
	}
	return out
}

// The work of Redis for the transitions of executions of one task, in batches.
func BenchmarkCommitAll(b *testing.B) {
	rdb := redistest.Start(b)
	st := store.New(rdb, store.Options{})
	if err := stream.New(st).Groups(b.Context(), tenant); err != nil {
		b.Fatal(err)
	}
	t := &transitions{st: st}
	var first, last float64
	for b.Loop() {
		b.StopTimer()
		t.commit(b, rdb, t.begun(b), &first)
		t.commit(b, rdb, t.ended(b), &last)
		rdb.XTrimMaxLen(b.Context(), streamKey, 0)
		b.StartTimer()
	}
	n := float64(b.N * batch)
	b.ReportMetric(first*1e6/n, "redis-µs/first")
	b.ReportMetric(last*1e6/n, "redis-µs/last")
}

func (t *transitions) commit(b *testing.B, rdb wire.Redis, commits []store.Commit, handled *float64) {
	b.Helper()
	before := cpuOf(b.Context(), rdb)
	b.StartTimer()
	done, err := t.st.CommitAll(b.Context(), commits)
	b.StopTimer()
	*handled += cpuOf(b.Context(), rdb) - before
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range done {
		if d.Err != nil || d.Outcome != store.Committed {
			b.Fatal(d)
		}
	}
}
