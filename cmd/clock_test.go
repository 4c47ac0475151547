package cmd_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
)

// An ordinary Redis has no clock that can be moved.
func TestClockOfAnotherRedis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	var out, errs bytes.Buffer
	code := cmd.Execute(t.Context(), []string{"clock", "advance", "3d", "--redis-url", server.Addr()}, cli.Streams{
		In: strings.NewReader(""), Out: &out, Err: &errs, Env: environment(nil),
	})
	if code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), "keeps real time: only 'flunq dev --clock virtual'") {
		t.Errorf("code %d, output %q, %q", code, &out, &errs)
	}
}
