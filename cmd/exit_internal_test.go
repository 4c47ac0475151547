package cmd

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"flunq.io/flunq/engine/dsl"
)

// Each kind of error has its exit code, however deep it is wrapped.
func TestExitCode(t *testing.T) {
	t.Parallel()
	plain := errors.New("boom")
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{plain, 1},
		{misusef("no such flag"), 2},
		{fail(exitFaulted, plain), 3},
		{fail(exitUnexpected, plain), 4},
		{fmt.Errorf("order.yaml: %w", dsl.ErrInvalid), 5},
		{reported(exitInvalid), 5},
		{fmt.Errorf("run: %w", fail(exitUnreachable, plain)), 6},
		{fail(exitLimit, plain), 7},
		{fail(exitFaulted, nil), 0},
		{interrupted(fmt.Errorf("run: %w", context.Canceled)), 130},
		{interrupted(misusef("no such flag")), 2},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("exitCode(%v) = %d, want %d", test.err, got, test.want)
		}
	}
}

// A suggestion is close to what was written, or there is none.
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
		if got := didYouMean(test.word, words, ""); got != test.want {
			t.Errorf("didYouMean(%q) = %q, want %q", test.word, got, test.want)
		}
	}
}
