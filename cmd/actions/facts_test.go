package actions_test

import (
	"math"
	"testing"

	"flunq.io/flunq/cmd/actions"
)

// A recorded duration ends at 292 years, the actual one may be longer.
func TestMilliseconds(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{0: "", 1500: "1.5s", math.MaxInt64 / 1_000_000: "over 106,751d", math.MaxInt64 / 1000: "106,751,991d"} {
		if got := actions.Milliseconds(ms); got != want {
			t.Errorf("%d ms: %q, want %q", ms, got, want)
		}
	}
}
