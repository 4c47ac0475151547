package run

import (
	"bytes"
	"strings"
	"testing"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/sim/scheduling"
)

// A broken promise is explained as a story, with the command that repeats it.
func TestWriteSchedulerFindings(t *testing.T) {
	t.Parallel()
	look := scheduling.Search{First: 30, Last: 60, Singles: 1, FailFast: true, Mistake: scheduling.Mistake{NoReconciler: true}}
	report, err := look.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	utf8 := func(string) string { return "C.UTF-8" }
	s := &searcher{sh: &cli.Shell{Streams: cli.Streams{Env: utf8}, Color: cli.NewChoice("never")}}
	s.writeScheduler(&out, report)
	for _, want := range []string{
		"scheduler: stopped before the end", "1 failure in", "1. broken promise: nothing is left\n", ", of which ",
		"is ready, with", ": schedule for ", ": answer: SUCCESS\n", ": ! ", "   ✘ event ", "it is SCHEDULED at the end",
		`   repeat with: flunq sim --scheduler --plan '{"seed":`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
}
