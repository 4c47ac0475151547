package bench

import (
	"slices"
	"time"
)

// durations are durations of one kind of operation.
type durations []time.Duration

// result returns the percentiles as a Result.
func (t durations) result(name string) Result {
	slices.Sort(t)
	return Result{
		Name: name, Unit: "ms", Count: len(t), P50: t.at(0.5), P99: t.at(0.99), Least: t.at(0), Most: t.at(1),
		Histogram: t.histogram(),
	}
}

// at returns a percentile in milliseconds; part is 0 to 1.
func (t durations) at(part float64) float64 {
	if len(t) == 0 {
		return 0
	}
	return milliseconds(t[min(int(part*float64(len(t))), len(t)-1)])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// histogram counts sorted times in buckets that double from a quarter of a
// millisecond.
func (t durations) histogram() (out []Bucket) {
	const first, buckets = 250 * time.Microsecond, 16
	upto := first
	for rest := t; len(rest) > 0; upto *= 2 {
		n := len(rest)
		if len(out) == buckets {
			return append(out, Bucket{0, n})
		}
		if i := slices.IndexFunc(rest, func(d time.Duration) bool { return d > upto }); i >= 0 {
			n = i
		}
		out = append(out, Bucket{milliseconds(upto), n})
		rest = rest[n:]
	}
	return out
}
