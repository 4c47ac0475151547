package playback_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/cmd/playback"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/tui"
)

// Thirty days with few events play within twenty seconds, and a note says what was skipped.
func TestIdleTimeIsSkipped(t *testing.T) {
	t.Parallel()
	r := example(t, "reminder")
	w := newWatch()
	f := r.playback(w)
	var notes []string
	took := time.Duration(0)
	for ; took < time.Minute; took += 100 * time.Millisecond {
		o := ok(f.Overview(t.Context()))
		notes = append(notes, o.Notes...)
		if o.Clock.Paused {
			break
		}
		w.pass(100 * time.Millisecond)
	}
	if took > 20*time.Second {
		t.Errorf("it played for %v, want at most 20s", took)
	}
	if said := strings.Join(notes, "; "); !strings.Contains(said, "d") || !strings.Contains(said, "skipped") {
		t.Errorf("notes %q do not mention skipped days", said)
	}
	o := ok(f.Overview(t.Context()))
	if end := r.events[len(r.events)-1].Time; !o.Now.Equal(end) || !o.Clock.End.Equal(end) || o.Counts.Completed != 1 {
		t.Errorf("it ends at %v with %+v, want %v with one completed execution", o.Now, o.Counts, end)
	}
}

// Simultaneous events are shown one after another, within a limited time.
func TestOneMomentIsStretched(t *testing.T) {
	t.Parallel()
	r := counting(t, 300)
	w := newWatch()
	f := r.playback(w)
	var seen []int64
	for range 60 {
		w.pass(50 * time.Millisecond)
		x := ok(f.Execution(t.Context(), "run-1"))
		seen = append(seen, x.Version)
	}
	if seen[0] == 0 || seen[0] > 100 || seen[20] < 100 || seen[59] != int64(len(r.events)) {
		t.Errorf("the %d events were shown in these steps, not one after another: %v", len(r.events), seen)
	}
}

// Play at the end begins again. Pause stops time.
func TestPlayAndPause(t *testing.T) {
	t.Parallel()
	r := example(t, "reminder")
	w := newWatch()
	f := r.playback(w)
	w.pass(time.Hour)
	if c := ok(f.Overview(t.Context())).Clock; !c.Paused || !c.Moves || !c.Seeks || len(c.Marks) == 0 {
		t.Errorf("after an hour the clock is %+v", c)
	}
	if c := move(t, f, tui.Move{Verb: tui.Play}); c.Paused {
		t.Error("it does not play again")
	}
	w.pass(100 * time.Millisecond)
	before := ok(f.Overview(t.Context()))
	if got := before.Now.Sub(r.opts.Start); got <= 0 || got > time.Second {
		t.Errorf("it is at %v, want the beginning", got)
	}
	move(t, f, tui.Move{Verb: tui.Pause})
	w.pass(time.Hour)
	if after := ok(f.Overview(t.Context())); !after.Now.Equal(before.Now) {
		t.Errorf("it was %v when it was paused, and is %v", before.Now, after.Now)
	}
	for _, speed := range []float64{0, -1, 1e9} {
		if err := f.Move(t.Context(), tui.Move{Verb: tui.Pace, Speed: speed}); err == nil {
			t.Errorf("it takes the speed %v", speed)
		}
	}
}

// Playback of a run in progress keeps up with it.
func TestKeepsUp(t *testing.T) {
	t.Parallel()
	r := example(t, "reminder")
	w := newWatch()
	r.opts.Pace, r.opts.Now = 60, w.Now
	f := playback.New(r.opts)
	f.Append(r.events[:5])
	w.pass(2 * time.Second)
	o := ok(f.Overview(t.Context()))
	if got, want := o.Now.Sub(r.events[4].Time), 2*time.Minute; got != want || o.Clock.Paused || !o.Clock.End.Equal(o.Now) {
		t.Errorf("it is %v behind the last event, want %v; clock %+v", got, want, o.Clock)
	}
	f.Append(r.events[5:])
	f.End("that was all")
	move(t, f, tui.Move{Verb: tui.Seek, To: r.events[len(r.events)-1].Time})
	if o = ok(f.Overview(t.Context())); o.Counts.Completed != 1 || len(o.Notes) != 1 {
		t.Errorf("at the end: %+v, %q", o.Counts, o.Notes)
	}
}

// Events may be appended while the playback is watched and moved.
func TestGrowsWhileItIsWatched(t *testing.T) {
	t.Parallel()
	r := counting(t, 2000)
	w := newWatch()
	r.opts.Now = w.Now
	f := playback.New(r.opts)
	var all sync.WaitGroup
	all.Go(func() {
		rest := r.events
		for _, n := range r.groups {
			f.Append(rest[:n])
			rest = rest[n:]
			w.pass(time.Millisecond)
		}
		f.End()
	})
	for i := range 3 {
		all.Go(func() {
			for range 100 {
				ok(f.Overview(t.Context()))
				if x, err := f.Execution(t.Context(), "run-1"); err == nil && x.Problem != "" && x.Version > 0 {
					t.Errorf("version %d: %s", x.Version, x.Problem)
				}
				pages(t, f, tui.Query{Table: tui.Events, Limit: 1000}) // another moves it between two looks
				verbs := []tui.MoveVerb{tui.NextEvent, tui.LastEvent, tui.Play}
				_ = f.Move(t.Context(), tui.Move{Verb: verbs[i]}) // there may be nowhere to go
			}
		})
	}
	all.Wait()
	f.At(len(r.events), time.Time{})
	if got, want := everything(t, f), everything(t, r.at(len(r.events))); got != want {
		t.Error("it differs from a playback of all events")
	}
}

// counting returns a run of a loop whose events are simultaneous.
func counting(t testing.TB, visits int) run {
	t.Helper()
	def := parsed(t, "count.yaml", []byte(`
document: {dsl: '1.0.3', namespace: test, name: count, version: 1.0.0}
do:
  - count:
      for: {each: n, in: '[range(0; .laps)]'}
      do:
        - keep: {set: {laps: '${ .laps }', n: '${ $n }'}}
`))
	return simulated(t, sim.Config{
		Definition: def, Start: sim.Epoch(), ID: "run-1", Input: fmt.Appendf(nil, `{"laps": %d}`, visits),
	})
}

// Playing stops before tasks with a breakpoint, and a step before any task.
func TestBreakpoints(t *testing.T) {
	t.Parallel()
	w := newWatch()
	f := counting(t, 3).playback(w)
	f.Break("keep")
	before := func(want string) {
		t.Helper()
		if c := ok(f.Overview(t.Context())).Clock; c.Before != want || !c.Paused {
			t.Errorf("it stopped before %q (paused: %v), want %q", c.Before, c.Paused, want)
		}
	}
	move(t, f, tui.Move{Verb: tui.NextTask})
	before("count")
	move(t, f, tui.Move{Verb: tui.Play})
	w.pass(time.Minute)
	before("keep[0]")
	move(t, f, tui.Move{Verb: tui.NextBreak})
	before("keep[1]")
	if x := ok(f.Execution(t.Context(), "run-1")); !x.Breaks["/do/0/count/do/0/keep"] || len(x.Breaks) != 1 {
		t.Errorf("its breakpoints are %v", x.Breaks)
	}
	move(t, f, tui.Move{Verb: tui.LastEvent})
	before("")
	move(t, f, tui.Move{Verb: tui.Break, Task: "/do/0/count/do/0/keep"})
	if err := f.Move(t.Context(), tui.Move{Verb: tui.NextBreak}); err == nil {
		t.Error("a breakpoint that was cleared is reached")
	}
	move(t, f, tui.Move{Verb: tui.Play})
	w.pass(time.Minute)
	if c := ok(f.Overview(t.Context())).Clock; c.At != c.Of || c.Before != "" {
		t.Errorf("it stopped at event %d of %d, before %q", c.At, c.Of, c.Before)
	}
}
