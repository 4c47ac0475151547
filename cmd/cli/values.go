package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/nats"
	"flunq.io/flunq/engine/store/wire"
)

// binding is a setting bound to the field that holds it.
type binding[T any] struct {
	at    *T
	show  func(T) string
	parse func(text string) (T, error)
}

// String returns the value as a user writes it.
func (b binding[T]) String() string { return b.show(*b.at) }

// Set parses text. If that fails, the field keeps its value.
func (b binding[T]) Set(text string) error {
	v, err := b.parse(text)
	if err == nil {
		*b.at = v
	}
	return err
}

// unchanged shows a string setting as it is.
func unchanged(text string) string { return text }

// whole binds an integer from low to high.
func whole(at *int, low, high int) binding[int] {
	return binding[int]{at, strconv.Itoa, func(text string) (int, error) {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("want an integer from %d to %d", low, high)
		}
		return n, nil
	}}
}

// replicas binds a number of replicas, or all.
func replicas(at *int) binding[int] {
	return binding[int]{at, func(n int) string {
		if n == wire.AllReplicas {
			return "all"
		}
		return strconv.Itoa(n)
	}, wire.ParseReplicas}
}

// size binds a number of bytes from low to high, shown in KiB where that is exact.
func size(at *int, low, high int) binding[int] {
	return binding[int]{at, sizeText, func(text string) (int, error) {
		text, unit := strings.TrimSpace(text), 1
		for suffix, bytes := range map[string]int{"KiB": 1 << 10, "MiB": 1 << 20} {
			if n, ok := strings.CutSuffix(text, suffix); ok {
				text, unit = strings.TrimSpace(n), bytes
			}
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if n *= int64(unit); err != nil || n < int64(low) || n > int64(high) {
			return 0, fmt.Errorf("want a size of at most %dKiB, such as 256KiB", high>>10)
		}
		return int(n), nil
	}}
}

func sizeText(n int) string {
	if n > 0 && n%(1<<10) == 0 {
		return strconv.Itoa(n>>10) + "KiB"
	}
	return strconv.Itoa(n)
}

// spanValue binds a duration in a range: 1s, 1m30s or PT1S.
type spanValue struct {
	at        *time.Duration
	low, high time.Duration
	bareMS    bool // a number without a unit is in milliseconds
}

func span(at *time.Duration, low, high time.Duration) spanValue {
	return spanValue{at: at, low: low, high: high}
}

func (v spanValue) String() string { return spanText(*v.at) }

// Set accepts a duration within the range.
func (v spanValue) Set(text string) error {
	example := "1s or PT1S"
	if v.low > time.Second {
		example = "12h or PT12H"
	}
	wanted := fmt.Errorf("want a duration from %s to %s, such as %s", spanText(v.low), spanText(v.high), example)
	if v.bareMS {
		wanted = fmt.Errorf("want milliseconds from %d to %d, or a duration such as 1s or PT1S", v.low.Milliseconds(), v.high.Milliseconds())
		if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 40); err == nil {
			text = strconv.FormatUint(n, 10) + "ms"
		}
	}
	d, ok := fixedSpan(text)
	if !ok || d < v.low || d > v.high {
		return wanted
	}
	*v.at = d
	return nil
}

// spanText formats a duration as users write it: in days where that is exact, without units that are
// zero.
func spanText(d time.Duration) string {
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

// fixedSpan parses a duration without months.
func fixedSpan(text string) (d time.Duration, ok bool) {
	given, err := dsl.ParseSpan(text)
	d, fixed := given.Fixed()
	return d, err == nil && fixed
}

// minKept and maxKept bound a retention period; 0 means forever.
const (
	minKept = time.Minute
	maxKept = 100 * 365 * 24 * time.Hour
)

// Keeping binds a retention period: 30d, 12h, P30D or 0. Its minimum leaves readers of an ended
// execution enough time.
func Keeping(at *time.Duration) binding[time.Duration] {
	return binding[time.Duration]{at, spanText, func(text string) (time.Duration, error) {
		d, ok := fixedSpan(text)
		if !ok || d != 0 && (d < minKept || d > maxKept) {
			return 0, fmt.Errorf("want a duration from %s to %s, such as 30d, 12h or P30D, or 0 for no limit", spanText(minKept), spanText(maxKept))
		}
		return d, nil
	}}
}

// truth binds a boolean, in the usual words for yes and no.
func truth(at *bool) binding[bool] {
	return binding[bool]{at, strconv.FormatBool, func(text string) (bool, error) {
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "true", "yes", "on", "1":
			return true, nil
		case "false", "no", "off", "0":
			return false, nil
		default:
			return false, errors.New("want true or false")
		}
	}}
}

// word binds one of a few words, in upper or lower case.
func word(at *string, words ...string) binding[string] {
	return binding[string]{at, unchanged, func(text string) (string, error) {
		text = strings.ToLower(strings.TrimSpace(text))
		if !slices.Contains(words, text) {
			return "", fmt.Errorf("want %s%s", OneOf(words), DidYouMean(text, words, ""))
		}
		return text, nil
	}}
}

// Level binds a log level.
func Level(at *slog.Level) binding[slog.Level] {
	return binding[slog.Level]{at, func(level slog.Level) string { return strings.ToLower(level.String()) }, func(text string) (level slog.Level, err error) {
		if text = strings.TrimSpace(text); strings.EqualFold(text, "warning") {
			text = "warn"
		}
		if text, err = word(nil, "debug", "info", "warn", "error").parse(text); err == nil {
			err = level.UnmarshalText([]byte(text))
		}
		return level, err
	}}
}

// named binds the name of a consumer group. It has no spaces, since scripts separate group and
// entry with a space.
func named(at *string) binding[string] {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	return binding[string]{at, unchanged, func(text string) (string, error) {
		if text == "" || len(text) > 100 || strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
			return "", errors.New("want at most 100 letters, digits and . _ -")
		}
		return text, nil
	}}
}

// text binds a string without control characters.
func text(at *string) binding[string] {
	return binding[string]{at, unchanged, func(text string) (string, error) {
		if text = strings.TrimSpace(text); strings.ContainsFunc(text, excerpt.Controls) {
			return "", errors.New("want text without control characters")
		}
		return text, nil
	}}
}

// list binds a comma-separated list.
func list(at *[]string) binding[[]string] {
	return binding[[]string]{at, func(all []string) string { return strings.Join(all, ",") }, func(text string) (all []string, err error) {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one == "" || strings.ContainsFunc(one, excerpt.Controls) {
				return nil, errors.New("want a comma-separated list")
			}
			all = append(all, one)
		}
		return all, nil
	}}
}

// secret binds a string that is never shown.
func secret(at *string) binding[string] {
	return binding[string]{at, redacted, func(text string) (string, error) { return text, nil }}
}

func redacted(text string) string {
	if text == "" {
		return ""
	}
	return "***"
}

// secretURL binds a comma-separated list of URLs, shown without user names and passwords.
func secretURL(at *string) binding[string] {
	return binding[string]{at, func(url string) string { return nats.Options{URL: url}.Address() }, func(text string) (string, error) {
		return strings.TrimSpace(text), nil
	}}
}

// Address binds an address to listen on, host:port.
func Address(at *string) binding[string] {
	return binding[string]{at, unchanged, func(text string) (string, error) {
		text = strings.TrimSpace(text)
		_, port, err := net.SplitHostPort(text)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
			return "", errors.New("want HOST:PORT, such as 127.0.0.1:50051")
		}
		return text, nil
	}}
}
