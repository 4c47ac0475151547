package cmd_test

import (
	"bytes"
	"strings"
	"testing"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
)

// An unreachable Redis is reported before anything is drawn.
func TestTopOfNothing(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := cmd.Execute(t.Context(), []string{"top", "--redis-url", "redis://:secret@127.0.0.1:1"}, cli.Streams{
		In: strings.NewReader(""), Out: &out, Err: &errs, InTerminal: true, Terminal: true, Env: environment(nil),
	})
	if code != 6 || out.Len() > 0 || !strings.Contains(errs.String(), "redis cannot be reached at redis://***@127.0.0.1:1") {
		t.Errorf("code %d, output %q, %q", code, &out, &errs)
	}
}
