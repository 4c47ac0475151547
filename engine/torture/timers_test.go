//go:build unix

package torture_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// timers maps executions to when their timers are due.
type timers map[string]time.Time

// plan returns n timers over a span of time.
func (w *environment) plan(kind string, n int, from time.Time, span time.Duration) timers {
	due := timers{}
	for _, id := range names(kind, n) {
		due[id] = from.Add(time.Duration(w.rand.Int64N(int64(span))))
	}
	return due
}

func (ts timers) timer(id string) event.Timer {
	return event.Timer{Tenant: tenant, Workflow: "torture.none", Execution: id, TaskID: "/do/0/wait", TaskName: "wait", FireAt: ts[id]}
}

func (ts timers) sorted() []string {
	var out []string
	for id := range ts {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// ask requests timers from the timer service, as any producer may.
func (w *environment) ask(ts timers) {
	w.t.Helper()
	for _, id := range ts.sorted() {
		timer := ts.timer(id)
		w.must(w.store.Publish(w.t.Context(), event.Event{
			ID: id + "/ask", Source: "/torture", Type: event.TimerScheduled, Time: timer.FireAt, Tenant: tenant,
			Workflow: timer.Workflow, Execution: id, Task: timer.TaskID, Data: event.Encode(timer),
		}))
	}
}

// put writes timers directly into the index, as foreign producers do.
func (w *environment) put(ts timers) {
	w.t.Helper()
	for ids := range slices.Chunk(ts.sorted(), 1000) {
		pipe := w.rdb.Pipeline()
		for _, id := range ids {
			pipe.ZAdd(w.t.Context(), timersKey, redis.Z{Score: foreign(ts[id]), Member: event.Encode(ts.timer(id))})
		}
		_, err := pipe.Exec(w.t.Context())
		w.must(err)
	}
}

// foreign returns a score as flunq.io writes it: rounded, so it may be early.
func foreign(at time.Time) float64 { return float64(at.UnixNano()) / 1e9 }

// firing is a timer that fired, as read from the stream.
type firing struct {
	event.Fired

	entry time.Time // Redis' time, in whole milliseconds
}

// firings returns all fired timers of a tenant.
func (w *environment) firings(tenant string) []firing {
	w.t.Helper()
	var out []firing
	w.stream("tenant:"+tenant+":events", func(e redis.XMessage) {
		if e.Values["type"] != string(event.TimerFired) {
			return
		}
		var f firing
		w.must(json.Unmarshal([]byte(fmt.Sprint(e.Values["data"])), &f.Fired))
		ms, _, _ := strings.Cut(e.ID, "-")
		n, err := strconv.ParseInt(ms, 10, 64)
		w.must(err)
		f.entry = time.UnixMilli(n)
		out = append(out, f)
	})
	return out
}

// verdict is the comparison of fired and due timers.
type verdict struct {
	lost, early, duplicated int

	late []time.Duration // sorted
}

// compare compares the timers that fired with those that were due.
func compare(due timers, fired []firing) (v verdict) {
	seen := map[string]int{}
	for _, f := range fired {
		at, ours := due[f.Execution]
		if !ours {
			continue
		}
		if seen[f.Execution]++; seen[f.Execution] > 1 {
			v.duplicated++
		}
		if f.FiredAt.Before(at) || f.entry.UnixMilli() < at.UnixMilli() || !f.FireAt.Equal(at) {
			v.early++
		}
		v.late = append(v.late, max(f.entry.Sub(at), 0))
	}
	v.lost = len(due) - len(seen)
	slices.Sort(v.late)
	return v
}

// percentile returns the lateness that p percent of the timers do not exceed.
func (v verdict) percentile(p int) time.Duration {
	if len(v.late) == 0 {
		return 0
	}
	return v.late[(len(v.late)*p-1)/100]
}

func (v verdict) String() string {
	r := func(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }
	return fmt.Sprintf("fired=%d lost=%d early=%d duplicated=%d late p50=%v p99=%v max=%v",
		len(v.late), v.lost, v.early, v.duplicated, r(v.percentile(50)), r(v.percentile(99)), r(v.percentile(100)))
}

// faultless fails the test if a timer is lost, early or duplicated.
func (w *environment) faultless(v verdict) {
	w.t.Helper()
	w.want("lost", v.lost, 0)
	w.want("early", v.early, 0)
	w.want("duplicated", v.duplicated, 0)
}

// punctual fails the test if more than 1 % of the timers exceed a lateness, in runs that
// measure it.
func (w *environment) punctual(v verdict, limit time.Duration) {
	w.t.Helper()
	if *full && v.percentile(99) > limit {
		w.t.Errorf("p99 of the lateness is %v, want at most %v", v.percentile(99), limit)
	}
}

// Whatever dies while timers are set and fire, none is lost, early or published twice.
func TestTimers(t *testing.T) {
	w := begin(t)
	n, kills, span := size(400, 10_000), size(4, 50), size(700*time.Millisecond, 8*time.Second)
	w.run(2, role{Timers: 2, Block: time.Second})
	ahead := size(700*time.Millisecond, 3*time.Second)
	from := w.now().Add(ahead)
	asked, foreign := w.plan("asked", n/2, from, span), w.plan("put", n/2, from, span)
	w.put(foreign)
	w.ask(asked)
	w.during(from.Add(span).Sub(w.now()), map[string]int{"kill": kills}, func(string) { w.kill(w.random(2)) })
	w.settle(store.TimerGroup)

	fired := w.firings(tenant)
	a, f := compare(asked, fired), compare(foreign, fired)
	w.report("timers=%d asked for: %v; put by others: %v", n, a, f)
	w.noDeadLetters()
	for _, v := range []verdict{a, f} {
		w.faultless(v)
		w.punctual(v, 250*time.Millisecond)
	}
}

// Redis dies, too, and restarts with the data on its disk: no timer is lost or early, and no workflow
// sees one twice.
func TestTimersWithoutRedis(t *testing.T) {
	w := begin(t, "--appendonly", "yes", "--appendfsync", "everysec")
	n, waiting, span := size(200, 9_000), size(50, 1_000), size(700*time.Millisecond, 8*time.Second)
	doing := map[string]int{"kill": size(3, 50), "kill redis": size(1, 7)}
	w.run(2, role{Workers: 2, Timers: 2, Block: time.Second})
	def := w.define("wait", "do: [{rest: {wait: '${ .pause }'}}]\n")
	from := w.now().Add(size(700*time.Millisecond, 3*time.Second))
	asked, foreign := w.plan("asked", n/2, from, span), w.plan("put", n/2, from, span)
	w.put(foreign)
	w.ask(asked)
	for _, id := range names("x", waiting) {
		pause := from.Add(time.Duration(w.rand.Int64N(int64(span)))).Sub(w.now())
		w.start(id, def, map[string]any{"pause": fmt.Sprintf("PT%.6fS", max(pause, time.Millisecond).Seconds())})
	}
	w.written()
	w.during(from.Add(span).Sub(w.now()), doing, func(what string) {
		if what == "kill" {
			w.kill(w.random(2))
			return
		}
		w.server.Kill()
		w.server.Restart(t)
	})
	w.settle(store.TimerGroup, store.WorkerGroup)

	waits := timers{}
	for _, id := range names("x", waiting) {
		s, err := w.ended(id)
		if err != nil {
			t.Error(err)
		} else if n := s.count(event.TimerFired); n != 1 || s.Status != "completed" {
			t.Errorf("execution %s is %s, its timer fired %d times: %s", id, s.Status, n, s.Error)
		}
		for _, e := range s.history {
			var fired event.Fired
			if e.Type == event.TimerFired {
				w.must(json.Unmarshal(e.Data, &fired))
				waits[id] = fired.FireAt
			}
		}
	}
	fired := w.firings(tenant)
	a, f, x := compare(asked, fired), compare(foreign, fired), compare(waits, fired)
	w.report("redis kills=%d timers=%d asked for: %v; put by others: %v; executions=%d: %v", doing["kill redis"], n, a, f, waiting, x)
	w.noDeadLetters()
	w.want("executions whose timer was lost", waiting-len(waits), 0)
	for _, v := range []verdict{a, f, x} {
		w.want("lost", v.lost, 0)
		w.want("early", v.early, 0)
	}
}

// written waits until Redis has written everything to disk.
func (w *environment) written() {
	w.t.Helper()
	w.until(func() string {
		info, err := w.rdb.Info(w.t.Context(), "persistence").Result()
		w.must(err)
		if strings.Contains(info, "aof_buffer_length:0\r\n") && strings.Contains(info, "aof_pending_bio_fsync:0\r\n") {
			return ""
		}
		return "what Redis has not written"
	})
}

// On an idle machine, timers are punctual.
func TestLateness(t *testing.T) {
	w := begin(t)
	n, span := size(100, 1_000), size(500*time.Millisecond, 5*time.Second)
	w.run(1, role{Timers: 2, Block: time.Second})
	from := w.now().Add(size(500*time.Millisecond, 2*time.Second))
	due := w.plan("t", n, from, span)
	w.ask(due)
	// Nothing else sends commands meanwhile: each command makes Redis end expired blocking
	// reads, which it otherwise does ten times a second.
	time.Sleep(from.Add(span).Sub(w.now()))
	w.settle(store.TimerGroup)

	v := compare(due, w.firings(tenant))
	w.report("timers=%d %v", n, v)
	w.faultless(v)
	w.punctual(v, 20*time.Millisecond)
	w.noDeadLetters()
}

// The timers of an old deployment fire, for a tenant that was never registered.
func TestOldTimers(t *testing.T) {
	const old = "acme"
	w := begin(t)
	n, span := size(100, 1_000), size(500*time.Millisecond, 4*time.Second)
	from := w.now().Add(500 * time.Millisecond)
	due := w.plan("old", n, from, span)
	pipe := w.rdb.Pipeline()
	for _, id := range due.sorted() {
		member, err := json.Marshal(oldTimer{
			Tenant: old, Workflow: "order", Execution: id, TaskID: "task-1", TaskName: "pause",
			FireAt: due[id].Format(time.RFC3339Nano), DurationMS: 5000,
		})
		w.must(err)
		pipe.ZAdd(t.Context(), timersKey, redis.Z{Score: foreign(due[id]), Member: member})
	}
	_, err := pipe.Exec(t.Context())
	w.must(err)
	w.run(1, role{Workers: 1, Timers: 2})
	time.Sleep(from.Add(span).Sub(w.now()))
	w.settle(store.TimerGroup)

	v := compare(due, w.firings(old))
	w.report("timers=%d %v", n, v)
	w.faultless(v)
	w.want("timers that fired for another tenant", len(w.firings(tenant)), 0)
	w.noDeadLetters()
}

// oldTimer is a timer as flunq.io writes it.
type oldTimer struct {
	Tenant     string `json:"tenant_id"`
	Workflow   string `json:"workflow_id"`
	Execution  string `json:"execution_id"`
	TaskID     string `json:"task_id"`
	TaskName   string `json:"task_name"`
	FireAt     string `json:"fire_at"`
	DurationMS int64  `json:"duration_ms"`
}
