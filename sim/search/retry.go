package search

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// retried is a call that the workflow itself makes again, though it may have been
// carried out: the attempt before ended without an answer.
type retried struct {
	Task, Method, URL string
	runs, plain, most int
}

// retriesIn are such calls of a run.
func retriesIn(t *sim.Trial) []retried {
	if len(t.Deeds) == 0 {
		return nil
	}
	given, counts, unanswered := unansweredIn(t), map[sim.Deed]int{}, map[sim.Deed]bool{}
	for d := range t.Deeds {
		run := event.ParseRun(d.Task)
		key := d
		key.Task = event.Run{Ref: run.Ref, Iteration: run.Iteration}.String()
		counts[key]++
		unanswered[key] = unanswered[key] || given[d.Execution+" "+d.Task]
	}
	var out []retried
	for _, d := range slices.SortedFunc(maps.Keys(counts), compareDeeds) {
		if counts[d] > 1 && unanswered[d] && (d.Method == http.MethodPost || d.Method == http.MethodPatch) {
			out = append(out, retried{Task: event.ParseRun(d.Task).Ref, Method: d.Method, URL: d.URL, most: counts[d]})
		}
	}
	return out
}

// unansweredIn are the runs of tasks that were given up without an answer.
func unansweredIn(t *sim.Trial) map[string]bool {
	given := map[string]bool{}
	for _, end := range t.Ends {
		for _, e := range end.History {
			var c event.Completed
			if e.Type != event.TaskCompleted || !bytes.Contains(e.Data, []byte(event.Timeout)) || decide.DecodeData(e, &c) != nil || c.Error == nil {
				continue
			}
			given[end.ID+" "+e.Task] = event.ShortType(c.Error.Type) == event.Timeout
		}
	}
	for _, s := range t.Struck {
		if s.Task != "" {
			given[s.Task] = true
		}
	}
	return given
}

func (h *hunt) countRetries(v *verdict) {
	seen := map[string]bool{}
	for _, got := range v.retried {
		r := h.retried[got.Task]
		if r == nil {
			r = &retried{Task: got.Task, Method: got.Method, URL: got.URL}
			h.retried[got.Task] = r
		}
		r.most = max(r.most, got.most)
		if seen[got.Task] {
			continue
		}
		seen[got.Task] = true
		r.runs++
		if len(v.struck) == 0 {
			r.plain++
		}
	}
}

// retryHint tells of calls that a try makes again although they may have been carried out.
func (h *hunt) retryHint() []Hint {
	var out []Hint
	for _, r := range slices.SortedFunc(maps.Values(h.retried), func(a, b *retried) int { return cmp.Compare(a.Task, b.Task) }) {
		where := "with faults only"
		if r.plain > 0 {
			where = fmt.Sprintf("in %s without any fault", runsText(r.plain))
		}
		out = append(out, Hint{"retry", h.Config.Definition.Task(r.Task), fmt.Sprintf(
			"%s %s reached the world up to %d times for one task: an attempt that ends without an answer, as by a timeout, may have been carried out, "+
				"and the retry makes it again (in %s, %s). Each time it carries the same Idempotency-Key header; a service that does not look at it does the deed twice",
			r.Method, r.URL, r.most, runsText(r.runs), where)})
	}
	return out
}

// turnsIn counts the turns of loops in a run, by the tasks inside.
func turnsIn(ends []sim.End) map[string]int {
	out := map[string]int{}
	for _, end := range ends {
		if strings.Contains(end.ID, ".") {
			continue // a child's
		}
		for _, e := range end.History {
			if e.Type != event.TaskRequested || !strings.Contains(e.Task, "#") {
				continue
			}
			run := event.ParseRun(e.Task)
			last := run.Iteration[strings.LastIndexByte(run.Iteration, '.')+1:]
			n := 0
			if _, err := fmt.Sscanf(last, "%d", &n); err == nil {
				out[run.Ref] = max(out[run.Ref], n+1)
			}
		}
	}
	return out
}
