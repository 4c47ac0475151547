//go:build unix

package torture_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// counting counts to a number in several branches concurrently.
func counting(branches, rounds int) (do, want string) {
	for i := range branches {
		do += fmt.Sprintf(`          - b%d:
              for: {in: "[range(%d)]"}
              do:
                - count: {set: {n: "${ (.n // 0) + 1 }"}}
`, i, rounds)
		want += fmt.Sprintf(`,{"n":%d}`, rounds)
	}
	return "do:\n  - all:\n      fork:\n        branches:\n" + do, "[" + want[1:] + "]"
}

// Sixteen workers compete for one execution.
func TestContention(t *testing.T) {
	const processes, workers, branches = 4, 4, 16
	w := begin(t)
	rounds := size(4, 64)
	w.run(processes, role{Workers: workers, Executors: 4, Timers: 1, Remote: true})
	do, want := counting(branches, rounds)
	began := time.Now()
	w.start("x", w.define("counting", do), struct{}{})
	w.settle(allGroups()...)

	s, err := w.ended("x")
	w.report("workers=%d rounds=%d versions=%d results=%d took=%v", processes*workers, branches*rounds, s.Version,
		s.count(event.TaskCompleted), time.Since(began).Round(time.Millisecond))
	w.must(err)
	if string(s.Output) != want || s.Status != string(decide.Completed) {
		t.Errorf("the execution is %s with output %s and error %s, want %s", s.Status, s.Output, s.Error, want)
	}
	w.noDeadLetters()
}

// A process that is stopped for three leases and then continues its work does not change
// what others have done meanwhile.
func TestStopped(t *testing.T) {
	w := begin(t)
	stops, each := size(1, 5), size(20, 60)
	w.run(3, role{Workers: 2, Executors: 4, Timers: 1, Remote: true})
	g := newTarget(t, 30*time.Millisecond, 0)
	def := w.define("asking", `do:
  - loop:
      for: {in: "[range(5)]"}
      do:
        - ask: {call: http, with: {method: post, endpoint: '${ $workflow.input.url }'}}
        - count: {set: {n: "${ $index + 1 }"}}
`)
	const want = `{"n":5}`
	var ids []string
	kept := 0
	for range stops {
		kept += w.stop(w.random(3), func() {
			for _, id := range names(fmt.Sprintf("x%d-", len(ids)), each) {
				w.start(id, def, map[string]any{"url": g.URL + "/" + id})
				ids = append(ids, id)
			}
		})
	}
	w.settle(allGroups()...)

	wrong := 0
	for _, id := range ids {
		s, err := w.ended(id)
		if err == nil && (string(s.Output) != want || s.Status != string(decide.Completed)) {
			err = fmt.Errorf("execution %s is %s with output %s and error %s", id, s.Status, s.Output, s.Error)
		}
		if err != nil {
			if wrong++; wrong <= 5 {
				t.Error(err)
			}
		}
	}
	ends, _ := w.published(event.WorkflowCompleted)
	results, duplicated := w.published(event.TaskCompleted)
	w.report("stops=%d held then=%d executions=%d wrong=%d ends published=%d results=%d duplicated=%d",
		stops, kept, len(ids), wrong, ends, results, duplicated)
	w.want("wrong", wrong, 0)
	w.want("ends published", ends, len(ids))
	w.want("results published twice", duplicated, 0)
	w.noDeadLetters()
}

// stop stops a process for three leases while it holds messages, and returns their number.
// It calls work to provide new messages, repeatedly if they are handled too soon.
func (w *environment) stop(slot int, work func()) (kept int) {
	w.t.Helper()
	work()
	w.until(func() string {
		if w.atRest(allGroups()...) == "" {
			work()
		}
		name := w.signal(slot, syscall.SIGSTOP)
		if kept = w.kept(name); kept > 0 {
			return ""
		}
		w.signal(slot, syscall.SIGCONT)
		return "a process that holds messages"
	})
	time.Sleep(3 * lease())
	w.signal(slot, syscall.SIGCONT)
	return kept
}
