//go:build unix

package torture_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// Whatever dies while tasks are performed, each execution ends with its result, and a task
// that crashes its process hardly affects others.
func TestTasks(t *testing.T) {
	w := begin(t)
	n, long, kills, span := size(60, 3_000), size(2, 20), size(3, 30), size(time.Second, 20*time.Second)
	g := newTarget(t, size(50*time.Millisecond, 100*time.Millisecond), lease()*24/10)
	w.run(3, role{Workers: 2, Executors: 16, Timers: 1})
	def := w.define("call", "do: [{ask: {call: http, with: {method: post, endpoint: '${ .url }'}}}]\n")

	ids := append(names("x", n), names("long", long)...)
	ids = append(ids, "poison")
	w.rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	doing := map[string]int{"start": len(ids), "kill": kills}
	next := ids
	w.during(span, doing, func(what string) {
		if what == "kill" {
			w.kill(w.random(3))
			return
		}
		w.start(next[0], def, map[string]any{"url": g.URL + folder(next[0]) + "/" + next[0]})
		next = next[1:]
	})
	w.settle(allGroups()...)
	w.checkTasks(g, ids)
}

// folder returns the path of the target that an execution calls.
func folder(id string) string {
	return "/" + strings.TrimRight(id, "0123456789")
}

func (w *environment) checkTasks(g *target, ids []string) {
	w.t.Helper()
	var wrong, faulted int
	var took []time.Duration
	for _, id := range ids {
		s, err := w.ended(id)
		switch {
		case err != nil:
		case id == "poison":
			if s.Status != string(decide.Faulted) {
				err = fmt.Errorf("the poison is %s", s.Status)
			}
		case s.Status == string(decide.Faulted):
			faulted++ // its dead letter is counted below
		case s.count(event.TaskCompleted) != 1 || string(s.Output) != `{"done":"`+id+`"}`:
			err = fmt.Errorf("execution %s is %s with %d results and output %s", id, s.Status, s.count(event.TaskCompleted), s.Output)
		}
		if err != nil {
			if wrong++; wrong <= 5 {
				w.t.Error(err)
			}
		}
		if folder(id) == "/x" {
			took = append(took, s.EndedAt.Sub(s.CreatedAt))
		}
	}
	slices.Sort(took)
	poison, _ := g.runs(poisonPath)
	longest, longs := g.runs("/long/")
	_, all := g.runs("/x/")
	others, needless := w.otherDeadLetters("poison"), g.needless(w.died)
	part := func(percent int) time.Duration { return took[(len(took)*percent-1)/100].Round(time.Millisecond) }
	_, duplicated := w.published(event.TaskCompleted)
	w.report("tasks=%d wrong=%d duplicated=%d poison runs=%d dead letters of other tasks=%d faulted=%d runs=%d long runs=%d (at most %d of one) "+
		"needless=%d took p50=%v p95=%v p99=%v max=%v", len(ids), wrong, duplicated, poison, others, faulted, all, longs, longest,
		needless, part(50), part(95), part(99), part(100))
	w.want("missing or duplicated", wrong, 0)
	w.want("results published twice", duplicated, 0)
	w.want("runs of the poison", poison, 5)
	w.want("dead letters of other tasks", max(others, faulted), size(2, len(ids)/1000))
	if n := len(w.deadLetters()["poison"]); n != 1 {
		w.t.Errorf("the poison has %d dead letters, want 1", n)
	}
}
