package playback_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/cmd/playback"
	"flunq.io/flunq/tui"
)

var update = flag.Bool("update", false, "rewrite what is wanted in testdata")

// The golden file of a run describes some of its moments.
func TestGoldenMoments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"checkout", "onboarding", "order-saga", "reminder"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := example(t, name)
			f := r.at(0)
			var out strings.Builder
			for i := range 6 {
				n := i * len(r.events) / 5
				if n > 0 {
					f = r.at(n)
				}
				fmt.Fprintf(&out, "== after event %d\n%s", n, described(t, f))
			}
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("%s (-want +got, -update rewrites it):\n%s", file, diff)
			}
		})
	}
}

// described returns the shown moment of a playback as text.
func described(t *testing.T, f *playback.Playback) string {
	t.Helper()
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	o := ok(f.Overview(t.Context()))
	line("%s of %s to %s, timers at %d, counts %+v", stamp(o.Now), stamp(o.Clock.Start), stamp(o.Clock.End), len(o.Clock.Marks), o.Counts)
	for _, part := range []struct {
		name string
		rows []tui.Row
	}{{"due", o.Due}, {"running", o.Running}, {"failed", o.Failed}, {"execution", rows(t, f, tui.Executions, 10)}} {
		for _, row := range part.rows {
			line("%s: %s", part.name, rowText(row))
		}
	}
	for _, row := range rows(t, f, tui.Executions, 10) {
		x := ok(f.Execution(t.Context(), row.ID))
		line("-- %s", rowText(x.Row))
		for _, fact := range x.Facts {
			line("%s: %s", fact[0], fact[1])
		}
		for _, d := range x.Data {
			line("%s = %s", d.Name, d.Text)
		}
		line("waits %q, %d timers, %d children%s", x.Waits, len(x.Timers), len(x.Children), x.Problem)
		for _, e := range ok(f.History(t.Context(), row.ID, max(0, x.Version-3))) {
			line("  %d %s %s %s %s %s", e.Version, stamp(e.At), e.Type, e.Task, e.State, e.Text)
		}
	}
	return out.String()
}

func rowText(r tui.Row) string {
	words := []string{r.ID, string(r.State), r.Kind, r.Workflow, r.Execution, r.Task, r.Note, stamp(r.At), stamp(r.Until)}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}
