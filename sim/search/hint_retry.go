package search

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// retried is a call that the workflow makes again although it was, or may have been, carried
// out: the previous attempt succeeded or had no response.
type retried struct {
	Task, Method, URL string
	runs, plain, most int

	because string // the task that failed after a successful attempt; "" if there was no response
}

// retriesIn returns such calls of a run.
func retriesIn(t *sim.Trial) []retried {
	counts := map[sim.CallID]int{}
	for call := range t.CallCounts {
		if call.Method == http.MethodPost || call.Method == http.MethodPatch {
			call.Task = withoutAttempt(call.Task)
			counts[call]++
		}
	}
	maps.DeleteFunc(counts, func(_ sim.CallID, n int) bool { return n < 2 }) // it was made again
	if len(counts) == 0 {
		return nil
	}
	repeatable, after := repeatableIn(t)
	var out []retried
	for _, call := range slices.SortedFunc(maps.Keys(counts), compareCalls) {
		if key := call.Execution + " " + call.Task; repeatable[key] {
			out = append(out, retried{Task: event.ParseRun(call.Task).Ref, Method: call.Method, URL: call.URL, most: counts[call], because: after[key]})
		}
	}
	return out
}

// repeatableIn returns the task runs, without their attempts, that were retried after an
// attempt that succeeded or had no response, and the tasks that failed after a successful
// attempt.
func repeatableIn(t *sim.Trial) (repeatable map[string]bool, after map[string]string) {
	repeatable, after = map[string]bool{}, map[string]string{}
	lost := map[string]bool{}
	for _, s := range t.Injected {
		lost[s.Task] = true
	}
	for _, end := range t.Ends {
		done, behind, well := map[string]bool{}, map[string]string{}, []string{}
		for _, e := range end.History {
			key := end.ID + " " + withoutAttempt(e.Task)
			if e.Type == event.TaskRequested && done[key] {
				repeatable[key] = true
				after[key] = cmp.Or(after[key], behind[key])
			}
			var c event.Completed
			if e.Type != event.TaskCompleted || decide.DecodeData(e, &c) != nil || c.Error == nil && c.Status != "" {
				continue
			}
			switch {
			case c.Error == nil:
				done[key], well = true, append(well, key)
			case event.ShortType(c.Error.Type) == event.Timeout || lost[end.ID+" "+e.Task]:
				done[key] = true
			default:
				for _, before := range well {
					behind[before] = event.ParseRun(e.Task).Ref
				}
				well = nil
			}
		}
	}
	return repeatable, after
}

func (h *hints) countRetries(shown []retried, faultFree bool) {
	seen := map[string]bool{}
	for _, got := range shown {
		r := h.retried[got.Task]
		if r == nil {
			r = &retried{Task: got.Task, Method: got.Method, URL: got.URL}
			h.retried[got.Task] = r
		}
		r.most, r.because = max(r.most, got.most), cmp.Or(r.because, got.because)
		if seen[got.Task] {
			continue
		}
		seen[got.Task] = true
		r.runs++
		if faultFree {
			r.plain++
		}
	}
}

// retryHint reports calls that a try makes again although they were, or may have been,
// carried out.
func (h *hints) retryHint() []Hint {
	var out []Hint
	for _, r := range slices.SortedFunc(maps.Values(h.retried), func(a, b *retried) int { return cmp.Compare(a.Task, b.Task) }) {
		where := "only with faults"
		if r.plain > 0 {
			where = fmt.Sprintf("in %s without any fault", runsText(r.plain))
		}
		why := "an attempt without a response, for example after a timeout, may have been carried out, and the retry repeats it"
		if r.because != "" {
			name := h.taskName(r.because)
			why = fmt.Sprintf("it succeeds, %s fails after it, and the retry repeats both: put %s into a try of its own, with the retry", name, name)
		}
		key := "Each attempt has the same Idempotency-Key header; a service that ignores it does the work twice"
		if h.rekeyed[r.Task] != nil {
			key = "The service cannot recognize the repetition, because each attempt has a different Idempotency-Key"
		}
		out = append(out, Hint{"retry", h.Config.Definition.Task(r.Task), fmt.Sprintf(
			"%s %s reaches the service up to %d times for one task: %s (in %s, %s). %s", r.Method, r.URL, r.most, why, runsText(r.runs), where, key)})
	}
	return out
}

// rekeyedIn returns the calls of a run with wrong idempotency keys, by task.
func rekeyedIn(t *sim.Trial) map[string]sim.KeyMisuse {
	out := map[string]sim.KeyMisuse{}
	for _, r := range t.Rekeyed {
		ref := event.ParseRun(r.Task).Ref
		if _, known := out[ref]; !known {
			out[ref] = r
		}
	}
	return out
}

// keyHint reports wrong idempotency keys that tasks set.
func (h *hints) keyHint() []Hint {
	var out []Hint
	for _, ref := range slices.Sorted(maps.Keys(h.rekeyed)) {
		r := h.rekeyed[ref].what
		text := fmt.Sprintf("its Idempotency-Key changes when it is retried (%s, then %s), so a service that has carried out the first call carries out the second one, too. "+
			`Build it from what stays the same, such as ${ "\($workflow.id)-%s" }, or leave the header out: flunq sets one that stays the same`, r.Before, r.Now, h.taskName(ref))
		if r.Before == r.Now {
			text = fmt.Sprintf("several calls have its Idempotency-Key %s, and a service that honours it carries out only the first. "+
				"Add what distinguishes the calls, or leave the header out: flunq sets one for each", r.Now)
		}
		out = append(out, Hint{"key", h.Config.Definition.Task(ref), text})
	}
	return out
}

// turnsIn counts the iterations of loops in a run, by the tasks inside.
func turnsIn(ends []sim.End) map[string]int {
	out := map[string]int{}
	for _, end := range ends {
		if end.Child() {
			continue
		}
		for _, e := range end.History {
			if e.Type != event.TaskRequested || !strings.Contains(e.Task, "#") {
				continue
			}
			run := event.ParseRun(e.Task)
			last := run.Iteration[strings.LastIndexByte(run.Iteration, '.')+1:]
			if n, err := strconv.Atoi(last); err == nil {
				out[run.Ref] = max(out[run.Ref], n+1)
			}
		}
	}
	return out
}
