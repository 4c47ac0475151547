package playback_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"flunq.io/flunq/tui"
)

// BenchmarkLongRun measures appending a hundred thousand events, reading and jumping.
func BenchmarkLongRun(b *testing.B) {
	r := counting(b, 50_000)
	b.Run("make", func(b *testing.B) {
		for b.Loop() {
			r.playback(newWatch())
		}
		b.ReportMetric(float64(len(r.events)*b.N)/b.Elapsed().Seconds(), "events/s")
	})
	f := r.playback(newWatch())
	ctx := b.Context()
	look := func() {
		ok(f.Overview(ctx))
		ok(f.Execution(ctx, "run-1"))
		ok(f.Page(ctx, tui.Query{Table: tui.Events, Limit: 100}))
	}
	b.Run("step", func(b *testing.B) {
		f.At(len(r.events)/2, time.Time{})
		for b.Loop() {
			done(f.Move(ctx, tui.Move{Verb: tui.NextEvent}))
			done(f.Move(ctx, tui.Move{Verb: tui.LastEvent}))
			look()
		}
	})
	b.Run("jump", func(b *testing.B) {
		chance := rand.New(rand.NewPCG(1, 1))
		for b.Loop() {
			f.At(1+chance.IntN(len(r.events)), time.Time{})
			look()
		}
	})
}
