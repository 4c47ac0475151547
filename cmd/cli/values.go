package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
)

// wholeValue is an integer in a range.
type wholeValue struct {
	at        *int
	low, high int
}

func whole(at *int, low, high int) *wholeValue { return &wholeValue{at, low, high} }

// String returns the number in digits.
func (v *wholeValue) String() string { return strconv.Itoa(*v.at) }

// Set accepts a number within the range.
func (v *wholeValue) Set(text string) error {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < v.low || n > v.high {
		return fmt.Errorf("want a whole number from %d to %d", v.low, v.high)
	}
	*v.at = n
	return nil
}

// spanValue is a duration in a range.
type spanValue struct {
	at        *time.Duration
	low, high time.Duration
}

func span(at *time.Duration, low, high time.Duration) *spanValue { return &spanValue{at, low, high} }

// String returns the duration in Go's notation.
func (v *spanValue) String() string { return v.at.String() }

// Set accepts 1s, 1m30s or PT1S.
func (v *spanValue) Set(text string) error {
	return v.take(text, fmt.Errorf("want a duration from %s to %s, such as 1s or PT1S", v.low, v.high))
}

// setMS also accepts a bare number of milliseconds.
func (v *spanValue) setMS(text string) error {
	if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 40); err == nil {
		text = strconv.FormatUint(n, 10) + "ms"
	}
	return v.take(text, fmt.Errorf("want milliseconds from %d to %d, or a duration such as 1s or PT1S",
		v.low.Milliseconds(), v.high.Milliseconds()))
}

func (v *spanValue) take(text string, wanted error) error {
	d, err := dsl.ParseSpan(text)
	given, fixed := d.Fixed()
	if err != nil || !fixed || given < v.low || given > v.high {
		return wanted
	}
	*v.at = given
	return nil
}

// keptValue is a retention period. Its minimum leaves readers of an ended execution enough
// time.
type keptValue struct{ at *time.Duration }

func keeping(at *time.Duration) keptValue { return keptValue{at} }

// leastKept and maxKept bound a retention period; 0 means for ever.
const (
	leastKept = time.Minute
	maxKept   = 100 * 365 * 24 * time.Hour
)

// String returns the duration in days and hours.
func (v keptValue) String() string { return keptText(*v.at) }

// keptText formats a duration, in days if it is a whole number of them.
func keptText(d time.Duration) string {
	const day = 24 * time.Hour
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	if d == 0 {
		return "0"
	}
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} { // 1h0m0s becomes 1h
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Set accepts 30d, 12h, P30D, and 0.
func (v keptValue) Set(text string) error {
	wanted := fmt.Errorf("want a duration from %s to %s, such as 30d, 12h or P30D, or 0 for ever", keptText(leastKept), keptText(maxKept))
	d, err := dsl.ParseSpan(text)
	given, fixed := d.Fixed()
	if err != nil || !fixed || given != 0 && (given < leastKept || given > maxKept) {
		return wanted
	}
	*v.at = given
	return nil
}

// truthValue is a boolean.
type truthValue struct{ at *bool }

func truth(at *bool) truthValue { return truthValue{at} }

// String returns true or false.
func (v truthValue) String() string { return strconv.FormatBool(*v.at) }

// Set accepts the usual words for yes and no.
func (v truthValue) Set(text string) error {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on", "1":
		*v.at = true
	case "false", "no", "off", "0":
		*v.at = false
	default:
		return errors.New("want true or false")
	}
	return nil
}

// wordValue is one of a few words.
type wordValue struct {
	at    *string
	words []string
}

func word(at *string, words ...string) wordValue { return wordValue{at, words} }

// String returns the word.
func (v wordValue) String() string { return *v.at }

// Set accepts one of the words.
func (v wordValue) Set(text string) error {
	text = strings.ToLower(strings.TrimSpace(text))
	if !slices.Contains(v.words, text) {
		return fmt.Errorf("want %s%s", OneOf(v.words), DidYouMean(text, v.words, ""))
	}
	*v.at = text
	return nil
}

// nameValue is the name of a consumer group.
type nameValue struct{ at *string }

func named(at *string) nameValue { return nameValue{at} }

// String returns the name.
func (v nameValue) String() string { return *v.at }

// Set accepts a name without spaces, since scripts separate group and entry by a space.
func (v nameValue) Set(text string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if text == "" || len(text) > 100 || strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return errors.New("want at most 100 letters, digits and . _ -")
	}
	*v.at = text
	return nil
}

// levelValue is a log level.
type levelValue struct{ at *slog.Level }

// LevelValue returns a flag or setting that sets at, a level of the log.
func LevelValue(at *slog.Level) levelValue { return levelValue{at} }

// String returns the level in lower case.
func (v levelValue) String() string { return strings.ToLower(v.at.String()) }

// Set accepts the name of a level.
func (v levelValue) Set(text string) error {
	words := []string{"debug", "info", "warn", "error"}
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "warning" {
		text = "warn"
	}
	if !slices.Contains(words, text) {
		return fmt.Errorf("want %s%s", OneOf(words), DidYouMean(text, words, ""))
	}
	return v.at.UnmarshalText([]byte(text))
}
