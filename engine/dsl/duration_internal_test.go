package dsl

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The fast path for durations agrees with the general parser.
func TestPlainISO(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	tried := 0
	for range 50_000 {
		var text strings.Builder
		text.WriteString("P")
		for _, unit := range []string{"Y", "M", "W", "D", "T", "H", "M", "S"} {
			switch n := random.IntN(8); {
			case unit == "T" && n > 2:
				text.WriteString("T")
			case n == 0:
				text.WriteString([]string{"0", "7", "12", "999999", "1000000", "1.5", "", "T"}[random.IntN(8)] + unit)
			case n == 1:
				text.WriteString("3" + unit)
			}
		}
		d, ok := plainISO(text.String())
		if !ok {
			continue
		}
		tried++
		if !isISO(text.String()) || d != durationOfISO(text.String()) {
			t.Fatalf("%s is %v", text.String(), d)
		}
	}
	if tried < 1000 {
		t.Errorf("%d durations were tried", tried)
	}
}
