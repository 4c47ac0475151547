package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/store/wire"
)

// bytes measures how much memory ids in the index, and events, take in Redis.
func (s scheduling) bytes(ctx context.Context) error {
	m := memory(s)
	if !m.read(ctx, nil).known {
		return nil
	}
	const fewest = 10_000 // what Redis allocates and frees meanwhile exceeds the memory of fewer
	n := max(s.opts.Timers, fewest)
	for name, span := range map[string]time.Duration{"an hour": time.Hour, "15 days": schedule.DefaultLimits().MaxDelay} {
		s.report("ids spread over "+name, 0)
		bytes, err := m.grown(ctx, func() error { return s.index(ctx, n, span) })
		if err != nil {
			return err
		}
		const text = 16 + 8
		s.add(Result{Name: "an id in the index, spread over " + name, Unit: "bytes", Bytes: bytes / float64(n), Count: n}.
			beside(text, "its 16 bytes and the 8 of its time"))
	}
	few := s.opts.size(100_000, 1000)
	bytes, err := m.grown(ctx, func() error { return s.schedule(ctx, 0, few, spread(few, schedule.DefaultLimits().MaxDelay)) })
	if err != nil {
		return err
	}
	s.add(Result{Name: fmt.Sprintf("a pending event with %d bytes of payload", payloadBytes), Unit: "bytes", Bytes: bytes / float64(few), Count: few}.
		beside(payloadBytes, "its payload"))
	return nil
}

// spread returns times that are spread over a span in no particular order, the earliest one
// minute from now.
func spread(n int, span time.Duration) func(int) time.Time {
	first := time.Now().Add(time.Minute)
	const step = 2_654_435_761 // far apart, and without a common divisor with most n
	return func(i int) time.Time {
		return first.Add(time.Duration(float64(span) * float64(uint64(i)*step%uint64(n)) / float64(n)))
	}
}

// index adds ids to the index of a table.
func (s scheduling) index(ctx context.Context, n int, span time.Duration) error {
	index := agenda.NewIndex(wire.NewClient(s.rdb))
	if err := index.SetPartitions(ctx, 0, scheduler.DefaultOptions().Partitions); err != nil {
		return err
	}
	due := spread(n, span)
	for from := 0; from < n; from += scheduler.MaxBatch {
		entries := make([]schedule.Entry, min(scheduler.MaxBatch, n-from))
		for i := range entries {
			entries[i] = schedule.Entry{ID: scheduledID(from + i), Next: due(from + i)}
		}
		if _, err := index.Add(ctx, entries); err != nil {
			return err
		}
		s.report(s.progress.Measuring, float64(from)/float64(n))
	}
	return nil
}

// pending measures claims, a page of the list and an idle process among few and among many
// pending events.
func (s scheduling) pending(ctx context.Context) error {
	var few float64
	const least = 10_000
	for _, n := range []int{min(least, s.opts.Timers), s.opts.Timers} {
		s.report(history.Number(n)+" pending events", 0)
		if err := s.fresh(ctx); err != nil {
			return err
		}
		if err := s.schedule(ctx, 0, n, spread(n, schedule.DefaultLimits().MaxDelay)); err != nil {
			return err
		}
		if n == s.opts.Timers {
			if err := errors.Join(s.pages(ctx), s.waiting(ctx)); err != nil {
				return err
			}
		}
		cpu, claimed, err := s.claims(ctx, n)
		if err != nil {
			return err
		}
		if few == 0 {
			few = cpu
			continue
		}
		s.add(Result{lessIsBetter: true, Name: fmt.Sprintf("a claim of %d events among %s", scheduler.DefaultOptions().Batch, history.Number(n)), Unit: "µs of Redis", Rate: cpu, Count: claimed}.
			beside(few, "among "+history.Number(min(least, n))))
	}
	return nil
}

// waiting measures an idle process.
func (s scheduling) waiting(ctx context.Context) error {
	w, err := idle(s).waiting(ctx, "an idle process", s.start)
	if err != nil {
		return err
	}
	s.add(Result{lessIsBetter: true, Name: "an idle process", Unit: "commands/s", Rate: w.commands, Count: s.opts.Timers}.
		beside(1, "one command a second"))
	return nil
}

// claims lets events come due and claims them. It returns the time that Redis takes for a
// claim of a whole batch.
func (s scheduling) claims(ctx context.Context, pending int) (cpu float64, claimed int, err error) {
	opts := scheduler.DefaultOptions()
	batches := s.opts.size(100, 2) // of each partition
	due := time.Now()
	n := batches * opts.Partitions * opts.Batch
	if err := s.schedule(ctx, pending, n, func(int) time.Time { return due }); err != nil {
		return 0, 0, err
	}
	ledger := agenda.NewLedger(wire.NewClient(s.rdb), agenda.Defaults())
	before, claims := s.read(ctx, nil), 0
	for p := range opts.Partitions {
		for range batches - 1 { // the last ones may be incomplete
			got, err := ledger.Claim(ctx, schedule.Claim{Partition: p, Limit: opts.Batch, Owner: s.tenant, Lease: opts.Retry.Lease})
			if err != nil {
				return 0, 0, err
			}
			claimed += len(got.Events)
			claims++
		}
	}
	used := s.read(ctx, nil).cpu - before.cpu
	return float64(used.Microseconds()) / float64(claims), claimed, nil
}

// pages measures pages of the list, and the reading of as many events by their ids.
func (s scheduling) pages(ctx context.Context) error {
	ledger := agenda.NewLedger(wire.NewClient(s.rdb), agenda.Defaults())
	const limit, pages = 100, 20
	var listed, read durations
	filter := schedule.Filter{Status: schedule.Scheduled, Limit: limit}
	for range pages {
		began := time.Now()
		found, next, err := ledger.List(ctx, filter)
		if err != nil {
			return err
		}
		listed, filter.Cursor = append(listed, time.Since(began)), next
		ids := make([]string, len(found))
		for i := range found {
			ids[i] = found[i].ID
		}
		began = time.Now()
		if _, err := ledger.Get(ctx, ids); err != nil {
			return err
		}
		read = append(read, time.Since(began))
	}
	s.add(listed.result(fmt.Sprintf("a page of %d events among %s", limit, history.Number(s.opts.Timers))).
		beside(read.result("").P50, "reading as many events by their ids"))
	return nil
}
