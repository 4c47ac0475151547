package dynamo_test

import (
	"fmt"
	"testing"
	"time"

	"flunq.io/flunq/engine/dynamo/dynamotest"
	"flunq.io/flunq/engine/schedule"
)

// BenchmarkLife measures the three writes of an event's life, in batches of 50. It says more
// about the emulator than about DynamoDB.
func BenchmarkLife(b *testing.B) {
	for name, emulator := range map[string]func(testing.TB) string{"dynalite": dynamotest.Dynalite, "local": dynamotest.Local} {
		b.Run(name, func(b *testing.B) {
			const batch = 50
			table := dynamotest.Table(b, emulator(b))
			var put, claim, settle time.Duration
			n := 0
			for b.Loop() {
				events, ids, ends := make([]schedule.Event, batch), make([]string, batch), make([]schedule.Settled, batch)
				for i := range events {
					events[i] = someEvent(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
					events[i].Payload = make([]byte, 200)
					ids[i] = events[i].ID
					ends[i] = schedule.Settled{ID: ids[i], Version: 2, Status: schedule.Fired, Attempts: 1}
					n++
				}
				times := [4]time.Time{time.Now()}
				if _, err := table.Put(b.Context(), events); err != nil {
					b.Fatal(err)
				}
				times[1] = time.Now()
				if _, err := table.Claim(b.Context(), ids, "p", noon(), noon().Add(time.Minute)); err != nil {
					b.Fatal(err)
				}
				times[2] = time.Now()
				if took, err := table.Settle(b.Context(), ends, noon()); err != nil || !took[0] {
					b.Fatal(took, err)
				}
				times[3] = time.Now()
				put, claim, settle = put+times[1].Sub(times[0]), claim+times[2].Sub(times[1]), settle+times[3].Sub(times[2])
			}
			for unit, took := range map[string]time.Duration{"puts/s": put, "claims/s": claim, "settles/s": settle} {
				b.ReportMetric(float64(n)/took.Seconds(), unit)
			}
		})
	}
}
