package dsl

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/yaml"
)

// Duration is a calendar duration. Months are counted separately because they differ in length.
type Duration struct {
	Months int64
	Days   int64
	Clock  time.Duration
	Until  time.Time // set if the duration is given as a timestamp; all other fields are zero then
	Go     bool      // given in Go's format ("1h30m"), which other runtimes do not accept
}

// From returns t plus the duration, in UTC. One month after January 31 is the last day of
// February. The result is never before t nor after the year 9999.
func (d Duration) From(t time.Time) time.Time {
	t = t.UTC()
	if !d.Until.IsZero() {
		if d.Until.Before(t) {
			return t
		}
		return d.Until.UTC()
	}
	last := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC) // that RFC 3339 can represent
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

// Before returns t minus the duration, with months as long as those after t.
func (d Duration) Before(t time.Time) time.Time { return t.Add(t.Sub(d.From(t))) }

// Fixed returns the length of a duration, with days of 24 hours. ok is false if it has months, is
// given as a timestamp, or exceeds 292 years.
func (d Duration) Fixed() (length time.Duration, ok bool) {
	const day = 24 * time.Hour
	fits := d.Days <= int64((math.MaxInt64-d.Clock)/day)
	return time.Duration(d.Days)*day + d.Clock, fits && d.Months == 0 && d.Until.IsZero()
}

// addMonths keeps the day of the month, or uses the last day if the month is shorter.
func addMonths(t time.Time, months int) time.Time {
	first := time.Date(t.Year(), t.Month()+time.Month(months), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	lastDay := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), lastDay)-1)
}

// ISO formats a length of time in ISO 8601, with days of 24 hours.
func ISO(d time.Duration) string {
	const day = 24 * time.Hour
	return Duration{Days: int64(d / day), Clock: d % day}.String()
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

// add adds a decimal number times a factor to an amount.
func add(amount *big.Rat, digits string, factor int64) {
	n, _ := new(big.Rat).SetString(digits)
	amount.Add(amount, n.Mul(n, new(big.Rat).SetInt64(factor)))
}

// split returns the integer part of a non-negative amount plus more, and the remainder.
func split(amount, more *big.Rat) (*big.Int, *big.Rat) {
	sum := new(big.Rat).Add(amount, more)
	quotient, remainder := new(big.Int).QuoRem(sum.Num(), sum.Denom(), new(big.Int))
	return quotient, new(big.Rat).SetFrac(remainder, sum.Denom())
}

// duration rounds up to nanoseconds so that no timer fires early. A fraction of a month counts as
// that fraction of 30 days.
func (a *amounts) duration() Duration {
	const day = int64(24 * time.Hour)
	months, part := split(&a.months, new(big.Rat))
	days, part := split(&a.days, part.Mul(part, big.NewRat(30, 1)))
	nanos, rest := split(&a.nanos, part.Mul(part, big.NewRat(day, 1)))
	if rest.Sign() > 0 {
		nanos.Add(nanos, big.NewInt(1))
	}
	// Larger amounts do not fit into a time.Duration and are counted in days.
	if nanos.Cmp(big.NewInt(math.MaxInt64/2)) > 0 {
		more, left := new(big.Int).QuoRem(nanos, big.NewInt(day), new(big.Int))
		days.Add(days, more)
		nanos = left
	}
	return Duration{Months: clamp(months), Days: clamp(days), Clock: time.Duration(clamp(nanos))}
}

func clamp(i *big.Int) int64 {
	if !i.IsInt64() {
		return math.MaxInt64
	}
	return i.Int64()
}

// ParseDuration parses a duration as written in a document or computed by an expression:
// ISO 8601, a map of integers, a Go duration, or a timestamp.
func ParseDuration(v any) (Duration, error) {
	d, wrong := readDuration(v)
	if wrong == nil {
		return d, nil
	}
	if wrong.suggestion == "" {
		return Duration{}, errors.New(wrong.message)
	}
	return Duration{}, fmt.Errorf("%s (%s)", wrong.message, wrong.suggestion)
}

// ConstantDuration returns a duration that is a constant of the document; ok is false for any other value.
func ConstantDuration(v *expr.Value) (d Duration, ok bool) {
	if v == nil {
		return d, false
	}
	data, constant := v.Constant()
	if !constant {
		return d, false
	}
	d, err := ParseDuration(data)
	return d, err == nil
}

// ParseRejection is event.ParseRejection, with the duration for which an input is parked, 0 if it is not.
func ParseRejection(text string) (rejection event.Rejection, park Duration, err error) {
	if rejection, err = event.ParseRejection(text); rejection.Park != "" {
		park, err = ParseDuration(rejection.Park)
	}
	return rejection, park, err
}

var daysFirst = lazyregexp.New(`^(?:(\d{1,6})w)?(?:(\d{1,6})d)?(.*)$`)

// ParseSpan parses a duration typed by a person: ISO 8601, or Go's notation preceded by weeks and
// days, such as 10m, 3d, 2d12h or 1w; 0 needs no unit.
func ParseSpan(text string) (d Duration, err error) {
	text = strings.TrimSpace(text)
	m := daysFirst().FindStringSubmatch(text)
	if rest := m[3]; rest != "" && text != "0" {
		d, err = ParseDuration(rest)
		if rest != text && !d.Go {
			err = errSpan
		}
	}
	if text == "" || err != nil || !d.Until.IsZero() {
		return Duration{}, errSpan
	}
	weeks, _ := strconv.ParseInt("0"+m[1], 10, 64)
	days, _ := strconv.ParseInt("0"+m[2], 10, 64)
	d.Days += 7*weeks + days
	return d, nil
}

var errSpan = errors.New("want a duration such as 10m, 3d or PT10M")

// durationError explains why a duration could not be parsed.
type durationError struct{ message, suggestion string }

func durationKeys() []string { return []string{"days", "hours", "minutes", "seconds", "milliseconds"} }

func readDuration(v any) (Duration, *durationError) {
	switch v := v.(type) {
	case string:
		return durationOfText(v)
	case map[string]any:
		return durationOfMap(v)
	default:
		if n, ok := wholeNumber(v); ok {
			return Duration{}, &durationError{
				fmt.Sprintf("%d is not a duration: a unit is missing", n),
				fmt.Sprintf("for seconds, write: PT%dS", max(n, 0)),
			}
		}
		return Duration{}, &durationError{"this is not a duration", "write it as PT5S or {seconds: 5}"}
	}
}

func durationOfMap(m map[string]any) (Duration, *durationError) {
	if len(m) == 0 {
		return Duration{}, &durationError{"the duration is empty", "write it as {seconds: 5}"}
	}
	known := durationKeys()
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, key) {
			return Duration{}, &durationError{"unknown key " + yaml.Quote(key) + " in a duration", didYouMean(key, known)}
		}
	}
	units := map[string]time.Duration{"hours": time.Hour, "minutes": time.Minute, "seconds": time.Second, "milliseconds": time.Millisecond}
	var total amounts
	for _, key := range known {
		value, ok := m[key]
		if !ok {
			continue
		}
		n, ok := value.(*big.Int)
		if !ok {
			var small int
			small, ok = wholeNumber(value)
			n = big.NewInt(int64(small))
		}
		switch {
		case !ok:
			return Duration{}, &durationError{key + " is not a whole number", wholeParts(key, value)}
		case n.Sign() < 0:
			return Duration{}, &durationError{key + " is negative", "a duration cannot lead into the past"}
		}
		if unit, ofClock := units[key]; ofClock {
			add(&total.nanos, n.String(), int64(unit))
		} else {
			add(&total.days, n.String(), 1)
		}
	}
	return total.duration(), nil
}

// wholeParts suggests how to write an amount that is not an integer.
func wholeParts(key string, value any) string {
	smaller := map[string]struct {
		unit string
		by   float64
	}{"days": {"hours", 24}, "hours": {"minutes", 60}, "minutes": {"seconds", 60}, "seconds": {"milliseconds", 1000}}
	if digits, isText := value.(string); isText && wholeText().MatchString(digits) {
		return "write it without quotes: {" + key + ": " + digits + "}"
	}
	f, ok := value.(float64)
	less, divisible := smaller[key]
	if !ok || !divisible || f < 0 || f*less.by != math.Trunc(f*less.by) {
		return "write it as {" + key + ": 5}"
	}
	return fmt.Sprintf("write it as {%s: %.0f}", less.unit, f*less.by)
}

var (
	wholeText  = lazyregexp.New(`^[1-9][0-9]{0,8}$`)
	isoAmount  = lazyregexp.New(`^\d+(?:\.\d+)?`)
	saidInFull = lazyregexp.New(`(?i)^\s*(\d+(?:\.\d+)?)\s*(milliseconds?|millis|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|d|weeks?|w|months?|years?|y)\s*$`)
)

func durationOfText(s string) (Duration, *durationError) {
	const longest = 200
	if len(s) > longest {
		return Duration{}, &durationError{yaml.Quote(s) + " is not a duration", ""}
	}
	if d, ok := durationOfISO(s); ok {
		return d, nil
	}
	if strings.ContainsAny(s, "smhun") {
		if d, err := time.ParseDuration(s); err == nil && d >= 0 {
			return Duration{Clock: d, Go: true}, nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return Duration{Until: t}, nil
	}
	if strings.HasPrefix(strings.TrimSpace(s), "-") || strings.Contains(s, "P-") {
		return Duration{}, &durationError{yaml.Quote(s) + " is negative", "a duration cannot lead into the past"}
	}
	suggestion := "write it as PT5S (5 seconds), PT10M (10 minutes) or P1D (1 day)"
	if fixed := suggestDuration(s); fixed != "" {
		suggestion = "write it as " + fixed
	}
	return Duration{}, &durationError{yaml.Quote(s) + " is not an ISO 8601 duration", suggestion}
}

// durationOfISO parses a duration in ISO 8601 format.
func durationOfISO(s string) (d Duration, ok bool) {
	s, ok = strings.CutPrefix(s, "P")
	date, clock, timed := strings.Cut(s, "T")
	if !ok || s == "" || timed && clock == "" {
		return d, false
	}
	type unit struct {
		designator byte
		sum        *big.Rat
		factor     int64
	}
	var total amounts
	for _, part := range []struct {
		text  string
		units []unit
	}{
		{date, []unit{{'Y', &total.months, 12}, {'M', &total.months, 1}, {'W', &total.days, 7}, {'D', &total.days, 1}}},
		{clock, []unit{{'H', &total.nanos, int64(time.Hour)}, {'M', &total.nanos, int64(time.Minute)}, {'S', &total.nanos, int64(time.Second)}}},
	} {
		for text, units := part.text, part.units; text != ""; {
			digits := isoAmount().FindString(text)
			if digits == "" || digits == text {
				return d, false
			}
			i := slices.IndexFunc(units, func(u unit) bool { return u.designator == text[len(digits)] })
			if i < 0 {
				return d, false
			}
			add(units[i].sum, digits, units[i].factor)
			text, units = text[len(digits)+1:], units[i+1:]
		}
	}
	return total.duration(), true
}

// suggestDuration guesses which duration an invalid string means; "" if it cannot.
func suggestDuration(s string) string {
	if m := saidInFull().FindStringSubmatch(s); m != nil {
		return inISO(m[1], strings.ToLower(m[2]))
	}
	up := strings.ToUpper(strings.ReplaceAll(s, " ", ""))
	if _, ok := durationOfISO(up); ok {
		return up
	}
	body := strings.TrimPrefix(up, "P")
	for _, guess := range []string{"PT" + body, "P" + strings.TrimPrefix(body, "T"), "P" + body} {
		if _, ok := durationOfISO(guess); ok {
			return guess
		}
	}
	if n := strings.TrimSpace(s); isoAmount().FindString(n) == n && n != "" {
		return "PT" + n + "S"
	}
	return ""
}

func inISO(amount, unit string) string {
	switch {
	case strings.HasPrefix(unit, "milli"):
		n, _ := new(big.Rat).SetString(amount)
		seconds := n.Mul(n, big.NewRat(1, 1000)).FloatString(6)
		return "PT" + strings.TrimRight(strings.TrimRight(seconds, "0"), ".") + "S"
	case strings.HasPrefix(unit, "mo"):
		return "P" + amount + "M"
	case strings.ContainsRune("dwy", rune(unit[0])):
		return "P" + amount + strings.ToUpper(unit[:1])
	default:
		return "PT" + amount + strings.ToUpper(unit[:1])
	}
}
