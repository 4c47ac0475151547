package dsl

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Duration is a calendar duration: months differ in length, so Months are counted
// separately.
type Duration struct {
	Months int64
	Days   int64
	Clock  time.Duration
	Until  time.Time // of a timestamp: the time itself; all other fields are zero
	Go     bool      // written in Go's format ("1h30m"), which other runtimes do not accept
}

// lastMoment returns the latest time that RFC 3339 can represent. Later times are clamped
// to it.
func lastMoment() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC) }

// From returns the time that is the duration after t, in UTC. One month after January 31
// is the last day of February. The result is never before t nor after the year 9999.
func (d Duration) From(t time.Time) time.Time {
	t = t.UTC()
	if !d.Until.IsZero() {
		if d.Until.Before(t) {
			return t
		}
		return d.Until.UTC()
	}
	last := lastMoment()
	const centuries = 10_000 * 12
	if d.Months >= centuries || d.Days >= centuries*31 {
		return last
	}
	out := addMonths(t, int(d.Months)).AddDate(0, 0, int(d.Days)).Add(d.Clock)
	if out.After(last) {
		return last
	}
	return out
}

// addMonths keeps the day of the month, or uses the last day of a shorter month.
func addMonths(t time.Time, months int) time.Time {
	first := time.Date(t.Year(), t.Month()+time.Month(months), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	lastDay := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), lastDay)-1)
}

// String returns the duration in ISO 8601 format.
func (d Duration) String() string {
	if !d.Until.IsZero() {
		return d.Until.Format(time.RFC3339Nano)
	}
	var date, clock strings.Builder
	put := func(b *strings.Builder, n int64, unit byte) {
		if n != 0 {
			b.WriteString(strconv.FormatInt(n, 10))
			b.WriteByte(unit)
		}
	}
	put(&date, d.Months/12, 'Y')
	put(&date, d.Months%12, 'M')
	put(&date, d.Days, 'D')
	put(&clock, int64(d.Clock/time.Hour), 'H')
	put(&clock, int64(d.Clock/time.Minute%60), 'M')
	seconds, nanos := int64(d.Clock/time.Second%60), int64(d.Clock%time.Second)
	switch {
	case nanos != 0:
		clock.WriteString(strings.TrimRight(fmt.Sprintf("%d.%09d", seconds, nanos), "0") + "S")
	default:
		put(&clock, seconds, 'S')
	}
	switch {
	case clock.Len() > 0:
		return "P" + date.String() + "T" + clock.String()
	case date.Len() > 0:
		return "P" + date.String()
	default:
		return "PT0S"
	}
}

// amounts is a duration before rounding.
type amounts struct{ months, days, nanos big.Rat }

func (a *amounts) add(n *big.Rat, unit rune, clock bool) {
	var scaled big.Rat
	times := func(factor int64) *big.Rat { return scaled.Mul(n, new(big.Rat).SetInt64(factor)) }
	switch {
	case clock && unit == 'H':
		a.nanos.Add(&a.nanos, times(int64(time.Hour)))
	case clock && unit == 'M':
		a.nanos.Add(&a.nanos, times(int64(time.Minute)))
	case clock:
		a.nanos.Add(&a.nanos, times(int64(time.Second)))
	case unit == 'Y':
		a.months.Add(&a.months, times(12))
	case unit == 'M':
		a.months.Add(&a.months, n)
	case unit == 'W':
		a.days.Add(&a.days, times(7))
	default:
		a.days.Add(&a.days, n)
	}
}

// duration rounds up to nanoseconds, so that no timer is early. A fraction of a month
// counts as that fraction of 30 days.
func (a *amounts) duration() Duration {
	months, part := split(&a.months)
	a.days.Add(&a.days, part.Mul(part, big.NewRat(30, 1)))
	days, part := split(&a.days)
	const day = int64(24 * time.Hour)
	a.nanos.Add(&a.nanos, part.Mul(part, big.NewRat(day, 1)))
	nanos, rest := split(&a.nanos)
	if rest.Sign() > 0 {
		nanos.Add(nanos, big.NewInt(1))
	}
	// Larger amounts do not fit a time.Duration, and are counted in days.
	if nanos.Cmp(big.NewInt(math.MaxInt64/2)) > 0 {
		more, left := new(big.Int).QuoRem(nanos, big.NewInt(day), new(big.Int))
		days.Add(days, more)
		nanos = left
	}
	return Duration{Months: clamp(months), Days: clamp(days), Clock: time.Duration(clamp(nanos))}
}

// split returns the integer part of a non-negative number, and the rest.
func split(r *big.Rat) (*big.Int, *big.Rat) {
	quotient, remainder := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	return quotient, new(big.Rat).SetFrac(remainder, r.Denom())
}

func clamp(i *big.Int) int64 {
	if !i.IsInt64() {
		return math.MaxInt64
	}
	return i.Int64()
}
