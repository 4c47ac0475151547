package playback_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
	"flunq.io/flunq/workflows"
)

// Each moment equals the state that is rebuilt from the events up to it.
func TestMomentsAreRebuilt(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := example(t, name)
			f := r.at(0)
			whole := 0
			for n, e := range r.events {
				move(t, f, tui.Move{Verb: tui.NextEvent})
				o := ok(f.Overview(t.Context()))
				if !o.Now.Equal(e.Time) {
					t.Fatalf("event %d: it is %s, want %s", n+1, o.Now, e.Time)
				}
				for _, row := range rows(t, f, tui.Executions, 3) {
					whole += r.check(t, n+1, ok(f.Execution(t.Context(), row.ID)))
				}
				if got, want := int(o.Counts.Timers), len(pending(r.events[:n+1], "")); got != want {
					t.Fatalf("event %d: %d timers, want %d", n+1, got, want)
				}
			}
			if whole == 0 {
				t.Error("no moment was at the end of a decision")
			}
			if err := f.Move(t.Context(), tui.Move{Verb: tui.NextEvent}); err == nil {
				t.Error("there is an event behind the last one")
			}
		})
	}
}

// check compares an execution with the state rebuilt from its events. It returns 1 if there
// is a state: the events must end with a complete decision.
func (r run) check(t *testing.T, n int, x tui.Execution) int {
	t.Helper()
	var own []event.Event
	for _, e := range r.events[:n] {
		if e.Execution == x.ID {
			own = append(own, e)
		}
	}
	if x.Version != int64(len(own)) || x.Problem != "" {
		t.Fatalf("event %d: %s has version %d (%s), want %d", n, x.ID, x.Version, x.Problem, len(own))
	}
	var timers []string
	for _, row := range x.Timers {
		timers = append(timers, row.Task+" "+row.At.String())
	}
	if diff := cmp.Diff(pending(r.events[:n], x.ID), timers); diff != "" {
		t.Fatalf("event %d: timers of %s (-want +got):\n%s", n, x.ID, diff)
	}
	def := r.opts.Definition
	for _, child := range r.opts.With {
		if child.ID() == x.Workflow {
			def = child
		}
	}
	s, err := decide.Rebuild(decide.NewEnv(def, r.opts.Decide), own)
	if err != nil {
		return 0 // incomplete decision
	}
	if string(s.Status) != string(x.State) {
		t.Fatalf("event %d: %s is %s, want %s", n, x.ID, x.State, s.Status)
	}
	if !s.Status.Ended() && !cmp.Equal(s.Awaits(nil), x.Waits) {
		t.Fatalf("event %d: %s waits %q, want %q", n, x.ID, x.Waits, s.Awaits(nil))
	}
	var set []string
	if s.Timeout != nil {
		set = append(set, " "+s.Timeout.Due().UTC().String())
	}
	for _, node := range s.Open() {
		for _, timer := range node.Timers {
			set = append(set, timer.TaskID+" "+timer.Due().UTC().String())
		}
	}
	slices.Sort(set)
	slices.Sort(timers)
	if diff := cmp.Diff(set, timers); diff != "" {
		t.Fatalf("event %d: timers of %s (-state +playback):\n%s", n, x.ID, diff)
	}
	return 1
}

// pending returns the timers that events leave pending, in order of their due times, of one
// execution or of all if it is "".
func pending(events []event.Event, execution string) (out []string) {
	var set []event.Timer
	for _, e := range events {
		var timer event.Timer
		switch e.Type {
		case event.TimerScheduled:
			ok(0, json.Unmarshal(e.Data, &timer))
			set = append(set, timer)
		case event.TimerFired, event.TimerCancelled:
			ok(0, json.Unmarshal(e.Data, &timer))
			set = slices.DeleteFunc(set, func(s event.Timer) bool {
				return s.Execution == timer.Execution && s.TaskID == timer.TaskID && s.Kind == timer.Kind &&
					s.Key == timer.Key && s.FireAt.Equal(timer.FireAt)
			})
		case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			set = slices.DeleteFunc(set, func(s event.Timer) bool { return s.Execution == e.Execution })
		default:
		}
	}
	slices.SortStableFunc(set, func(a, b event.Timer) int { return a.Due().Compare(b.Due()) })
	for _, s := range set {
		if execution == "" || s.Execution == execution {
			out = append(out, s.TaskID+" "+s.Due().UTC().String())
		}
	}
	return out
}

// A moment does not depend on the steps, jumps and playing that led to it.
func TestMovesEndAtTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"checkout", "fan-out", "onboarding", "order-saga", "poll", "reminder"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := example(t, name)
			want := make([]string, len(r.events)+1)
			for n := range want {
				want[n] = everything(t, r.at(n))
			}
			w := newWatch()
			f := r.playback(w)
			chance := rand.New(rand.NewPCG(5, 5))
			var moves []string
			for range 200 {
				m := randomMove(chance, r)
				moves = append(moves, fmt.Sprintf("%s %v %v", m.Verb, m.To, m.Speed))
				before := ok(f.Overview(t.Context())).Now
				err := f.Move(t.Context(), m)
				if err == nil && m.Verb == tui.Seek && !ok(f.Overview(t.Context())).Clock.Paused && ok(f.Overview(t.Context())).Now.Before(m.To) {
					t.Fatalf("%v: it is %v, was %v", m, ok(f.Overview(t.Context())).Now, before)
				}
				w.pass(time.Duration(chance.Int64N(int64(300 * time.Millisecond))))
				n := len(rows(t, f, tui.Events, 50))
				if got := everything(t, f); got != want[n] {
					t.Fatalf("after event %d, after %q (-want +got):\n%s", n, moves, cmp.Diff(want[n], got))
				}
			}
		})
	}
}

// randomMove returns a random move within a run.
func randomMove(chance *rand.Rand, r run) tui.Move {
	verbs := []tui.MoveVerb{
		tui.Play, tui.Pause, tui.Seek, tui.NextEvent, tui.NextEvent, tui.LastEvent, tui.NextTimer, tui.LastTimer, tui.Pace,
	}
	end := r.events[len(r.events)-1].Time.Sub(r.opts.Start)
	return tui.Move{
		Verb: verbs[chance.IntN(len(verbs))], To: r.opts.Start.Add(time.Duration(chance.Int64N(int64(end) + 1))),
		Speed: []float64{0.1, 1, 60, 3600, 86400}[chance.IntN(5)],
	}
}
