package top_test

import (
	"testing"
	"time"

	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/tui"
)

// The clock of flunq dev can be moved forward but not back.
func TestVirtualClock(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	groups := []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup}
	r, err := dev.Open(t.Context(), dev.Options{Mode: dev.Virtual, Start: start, Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	rdb := must(store.Dial(t.Context(), r.URL()))(t)
	t.Cleanup(func() { _ = rdb.Close() })
	w := environmentOn(t, rdb)
	w.run()
	keeper, ok := w.source.(tui.TimeMover)
	if !ok {
		t.Fatalf("%T keeps no time", w.source)
	}
	move := func(m tui.Move) tui.Clock {
		t.Helper()
		if err := keeper.Move(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		return w.overview().Clock
	}
	if c := move(tui.Move{Verb: tui.Pause}); !c.Moves || c.Seeks || !c.Paused {
		t.Errorf("paused: %+v", c)
	}
	w.start("short", "nap", "do: [{rest: {wait: PT1H}}]")
	w.start("long", "long", "do: [{rest: {wait: P3D}}]")
	w.timerOf("long")
	w.timerOf("short")
	o := w.overview()
	if !o.Clock.Moves || len(o.Clock.Marks) != 2 || len(o.Services) != 3 || o.Services[0].Alive == 0 {
		t.Errorf("%+v", o)
	}
	move(tui.Move{Verb: tui.NextTimer})
	w.becomes("short", tui.Completed)
	if now := w.overview().Now; now.Before(start.Add(time.Hour)) || now.After(start.Add(2*time.Hour)) {
		t.Errorf("after the first timer it is %v", now)
	}
	move(tui.Move{Verb: tui.Advance, By: 24 * time.Hour})
	if now := w.overview().Now; now.Before(start.Add(25*time.Hour)) || now.After(start.Add(26*time.Hour)) {
		t.Errorf("a day later it is %v", now)
	}
	move(tui.Move{Verb: tui.Seek, To: start.Add(80 * time.Hour)})
	w.becomes("long", tui.Completed)
	if c := move(tui.Move{Verb: tui.Play}); c.Paused {
		t.Errorf("it is still running: %+v", c)
	}
	for _, m := range []tui.Move{
		{Verb: tui.Seek, To: start}, {Verb: tui.Advance, By: -time.Hour}, {Verb: tui.NextTimer}, {Verb: tui.LastTimer}, {Verb: tui.NextEvent}, {Verb: tui.Pace, Speed: 4},
	} {
		if err := keeper.Move(t.Context(), m); err == nil {
			t.Errorf("%v was done", m)
		}
	}
	if _, ok := newEnvironment(t).source.(tui.TimeMover); ok {
		t.Error("an ordinary Redis has a clock that can be moved")
	}
}
