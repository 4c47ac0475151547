package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseDelay reads a duration of a fixed length: ISO 8601 ("PT0.2S"), Go's
// form ("200ms") or the parts that the DSL has ({seconds: 5}).
func parseDelay(v any) (time.Duration, error) {
	switch v := v.(type) {
	case string:
		if d, err := time.ParseDuration(v); err == nil {
			return notNegative(d)
		}
		return parseISO(v)
	case map[string]any:
		units := map[string]time.Duration{
			"days": 24 * time.Hour, "hours": time.Hour, "minutes": time.Minute,
			"seconds": time.Second, "milliseconds": time.Millisecond,
		}
		var sum float64
		for name, n := range v {
			count, ok := n.(int)
			if unit, known := units[name]; ok && known {
				sum += float64(count) * float64(unit)
				continue
			}
			return 0, fmt.Errorf("%q: want whole numbers of days, hours, minutes, seconds, milliseconds", name)
		}
		return fits(sum)
	default:
		return 0, fmt.Errorf("%s is no duration: want one such as PT5S, 200ms or {seconds: 5}", jsonText(v))
	}
}

func parseISO(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no duration: want one such as PT5S, P1DT12H or 200ms", text)
	rest, ok := strings.CutPrefix(text, "P")
	date, clock, timed := strings.Cut(rest, "T")
	if !ok || rest == "" || timed && clock == "" {
		return 0, bad
	}
	if strings.ContainsAny(date, "YM") {
		return 0, fmt.Errorf("%q: months and years have no fixed length, want days", text)
	}
	days, ok := sumUnits(date, "WD", map[byte]time.Duration{'W': 7 * 24 * time.Hour, 'D': 24 * time.Hour})
	if !ok {
		return 0, bad
	}
	hours, ok := sumUnits(clock, "HMS", map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second})
	if !ok {
		return 0, bad
	}
	return fits(days + hours)
}

// sumUnits adds up numbers with units, each unit at most once and in order.
func sumUnits(text, order string, units map[byte]time.Duration) (float64, bool) {
	var sum float64
	for text != "" {
		end := strings.IndexAny(text, order)
		if end < 1 || strings.Trim(text[:end], "0123456789.") != "" {
			return 0, false
		}
		count, err := strconv.ParseFloat(text[:end], 64)
		if err != nil {
			return 0, false
		}
		sum += count * float64(units[text[end]])
		order = order[strings.IndexByte(order, text[end])+1:]
		text = text[end+1:]
	}
	return sum, true
}

func fits(sum float64) (time.Duration, error) {
	if sum >= math.MaxInt64 {
		return 0, fmt.Errorf("longer than 292 years")
	}
	return notNegative(time.Duration(math.Round(sum)))
}

func notNegative(d time.Duration) (time.Duration, error) {
	if d < 0 {
		return 0, fmt.Errorf("%v is negative", d)
	}
	return d, nil
}
