package agenda_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

// partitions is the number of partitions of the benchmarks.
const partitions = 16

// bench is a real Redis.
type bench struct {
	rdb    *wire.Client
	ledger agenda.Ledger
	index  agenda.Index
	random *rand.Rand
	next   uint64
}

func newBench(b testing.TB) *bench {
	b.Helper()
	rdb := dial(b, redistest.Addr(b))
	w := &bench{rdb: rdb, ledger: agenda.NewLedger(rdb, agenda.Defaults()), index: agenda.NewIndex(rdb), random: rand.New(rand.NewPCG(1, 2))}
	if err := w.ledger.SetPartitions(b.Context(), 0, partitions); err != nil {
		b.Fatal(err)
	}
	return w
}

// id returns a random id.
func (w *bench) id() string {
	a, b := w.random.Uint64(), w.random.Uint64()
	w.next++
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, w.next)
}

// events returns n events with a payload of 200 bytes that are due after a time.
func (w *bench) events(n int, due func(i int) time.Time) []schedule.Event {
	out := make([]schedule.Event, n)
	for i := range out {
		at := due(i).Truncate(time.Millisecond)
		out[i] = schedule.Event{
			Content: schedule.Content{Due: at, Topic: "orders.reminders", Payload: []byte(strings.Repeat("p", 200))},
			ID:      w.id(), Status: schedule.Scheduled, Version: 1, Next: at, Created: at, Updated: at,
		}
	}
	return out
}

// info returns the sum of some fields of INFO.
func (w *bench) info(b testing.TB, section string, names ...string) (sum float64) {
	b.Helper()
	for line := range strings.Lines(w.rdb.Info(b.Context(), section).Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, wanted := range names {
			if name == wanted {
				n, _ := strconv.ParseFloat(value, 64)
				sum += n
			}
		}
	}
	return sum
}

// cpu returns the CPU seconds that Redis has used.
func (w *bench) cpu(b testing.TB) float64 {
	b.Helper()
	return w.info(b, "cpu", "used_cpu_user", "used_cpu_sys")
}

// memory returns the bytes that Redis uses.
func (w *bench) memory(b testing.TB) float64 {
	b.Helper()
	return w.info(b, "memory", "used_memory")
}

func (w *bench) flush(b testing.TB) {
	b.Helper()
	w.rdb.FlushAll(b.Context())
	if err := w.ledger.SetPartitions(b.Context(), 0, partitions); err != nil {
		b.Fatal(err)
	}
}

// place stores events, some at a time.
func (w *bench) place(b testing.TB, events []schedule.Event, together int) {
	b.Helper()
	for ; len(events) > 0; events = events[min(together, len(events)):] {
		if _, err := w.ledger.Place(b.Context(), events[:min(together, len(events))]); err != nil {
			b.Fatal(err)
		}
	}
}

// report reports what n events cost.
func report(b *testing.B, n int, used float64) {
	b.Helper()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(used*1e6/float64(n), "redis-µs/event")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPlace measures how fast events are stored, one or several at a time.
func BenchmarkPlace(b *testing.B) {
	for _, together := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(together), func(b *testing.B) {
			const n = 20_000
			w := newBench(b)
			var used float64
			for b.Loop() {
				b.StopTimer()
				w.flush(b)
				now := time.Now()
				events := w.events(n, func(int) time.Time { return now.Add(time.Duration(w.random.Int64N(int64(time.Hour)))) })
				before := w.cpu(b)
				b.StartTimer()
				w.place(b, events, together)
				b.StopTimer()
				used += w.cpu(b) - before
				b.StartTimer()
			}
			report(b, b.N*n, used)
		})
	}
}

// fire claims and settles n events in batches.
func (w *bench) fire(b testing.TB, n, batch int) (claims, settles float64) {
	b.Helper()
	for p := 0; n > 0; p = (p + 1) % partitions {
		before := w.cpu(b)
		c, err := w.ledger.Claim(b.Context(), schedule.Claim{Partition: p, Limit: batch, Owner: "host-1-abcdefgh", Lease: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		n -= len(c.Events)
		between := w.cpu(b)
		ends := make([]schedule.Settled, len(c.Events))
		for i, e := range c.Events {
			ends[i] = schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Fired, Attempts: 1}
		}
		if _, err := w.ledger.Settle(b.Context(), p, ends, c.Now); err != nil {
			b.Fatal(err)
		}
		claims, settles = claims+between-before, settles+w.cpu(b)-between
	}
	return claims, settles
}

// BenchmarkFire measures how fast events are claimed and settled in batches of 50.
func BenchmarkFire(b *testing.B) {
	const n = 20_000
	w := newBench(b)
	var used float64
	for b.Loop() {
		b.StopTimer()
		w.flush(b)
		now := time.Now().Add(-time.Second)
		w.place(b, w.events(n, func(i int) time.Time { return now.Add(-time.Duration(i) * time.Millisecond / 20) }), 1000)
		before := w.cpu(b)
		b.StartTimer()
		w.fire(b, n, 50)
		b.StopTimer()
		used += w.cpu(b) - before
		b.StartTimer()
	}
	report(b, b.N*n, used)
}

// BenchmarkFireAmong measures what a claim costs while many events are pending. Ten million take
// Redis 5 GB, and minutes to store.
func BenchmarkFireAmong(b *testing.B) {
	const n = 10_000
	for _, pending := range []int{10_000, 1_000_000, 10_000_000} {
		b.Run(strconv.Itoa(pending), func(b *testing.B) {
			w := newBench(b)
			now := time.Now().Add(-time.Second)
			for range pending / n {
				w.place(b, w.events(n, func(int) time.Time {
					return now.Add(time.Hour + time.Duration(w.random.Int64N(int64(time.Hour))))
				}), 1000)
			}
			var claims, settles float64
			for b.Loop() {
				b.StopTimer()
				w.place(b, w.events(n, func(i int) time.Time { return now.Add(-time.Duration(i) * time.Millisecond / 20) }), 1000)
				b.StartTimer()
				c, s := w.fire(b, n, 50)
				claims, settles = claims+c, settles+s
			}
			b.ReportMetric(claims*1e6/float64(b.N*n), "redis-µs/claimed")
			b.ReportMetric(settles*1e6/float64(b.N*n), "redis-µs/settled")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkMemory measures the bytes of a pending id and of a pending event.
func BenchmarkMemory(b *testing.B) {
	const days = 15
	for _, span := range []time.Duration{time.Hour, days * 24 * time.Hour} {
		for _, order := range []string{"ascending", "random"} {
			b.Run(fmt.Sprint("ids/", span, "/", order), func(b *testing.B) {
				const n = 1_000_000
				w := newBench(b)
				now := time.Now().Add(time.Hour)
				at := w.random.Perm(n)
				for b.Loop() {
					b.StopTimer()
					w.flush(b)
					before := w.memory(b)
					b.StartTimer()
					entries := make([]schedule.Entry, 0, 1000)
					for i := range n {
						if order == "ascending" {
							at[i] = i
						}
						entries = append(entries, schedule.Entry{ID: w.id(), Next: now.Add(span / n * time.Duration(at[i])).Truncate(time.Millisecond)})
						if len(entries) == cap(entries) {
							if _, err := w.index.Add(b.Context(), entries); err != nil {
								b.Fatal(err)
							}
							entries = entries[:0]
						}
					}
					b.ReportMetric((w.memory(b)-before)/n, "B/id")
				}
			})
		}
	}
	b.Run("events", func(b *testing.B) {
		const n = 200_000
		w := newBench(b)
		for b.Loop() {
			w.flush(b)
			before := w.memory(b)
			now := time.Now().Add(-time.Hour)
			w.place(b, w.events(n, func(int) time.Time { return now.Add(time.Duration(w.random.Int64N(int64(time.Hour)))) }), 1000)
			pending := w.memory(b)
			w.fire(b, n, 50)
			b.ReportMetric((pending-before)/n, "B/pending")
			b.ReportMetric((w.memory(b)-before)/n, "B/fired")
		}
	})
}
