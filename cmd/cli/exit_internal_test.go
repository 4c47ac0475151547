package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"flunq.io/flunq/engine/yaml"
)

// Each kind of error has its exit code, however deeply it is wrapped.
func TestExitCode(t *testing.T) {
	t.Parallel()
	plain := errors.New("boom")
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{plain, 1},
		{Misusef("no such flag"), 2},
		{Fail(ExitFaulted, plain), 3},
		{Fail(ExitUnexpected, plain), 4},
		{fmt.Errorf("order.yaml: %w", &yaml.Mistakes{}), 5},
		{Reported(ExitInvalid), 5},
		{fmt.Errorf("run: %w", Fail(ExitUnreachable, plain)), 6},
		{Fail(ExitLimit, plain), 7},
		{Fail(ExitFaulted, nil), 0},
		{Interrupted(fmt.Errorf("run: %w", context.Canceled)), 130},
		{Interrupted(Misusef("no such flag")), 2},
	} {
		if got := ExitCode(test.err); got != test.want {
			t.Errorf("exitCode(%v) = %d, want %d", test.err, got, test.want)
		}
	}
}

// A suggestion is similar to the word, or there is none.
func TestDidYouMean(t *testing.T) {
	t.Parallel()
	words := []string{"validate", "graph", "version", "completion", "run"}
	for _, test := range []struct{ word, want string }{
		{"valdiate", "; did you mean validate?"},
		{"Graph", "; did you mean graph?"},
		{"comp", "; did you mean completion?"},
		{"rnu", "; did you mean run?"},
		{"xy", ""},
		{"", ""},
		{"deploy", ""},
	} {
		if got := DidYouMean(test.word, words, ""); got != test.want {
			t.Errorf("didYouMean(%q) = %q, want %q", test.word, got, test.want)
		}
	}
}
