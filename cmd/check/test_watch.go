package check

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
)

// watchTests is the polling interval of --watch.
const watchTests = 500 * time.Millisecond

// follow runs the tests and reruns those affected by a change until ctx ends.
func (t *tester) follow(ctx context.Context, args []string) error {
	w := &watched{tester: t, args: args, state: map[string]string{}, needs: map[string][]string{}, stamps: map[string]string{}}
	t.read, t.loaded = w.readStamped, w.ran
	if _, err := testFiles(args); err != nil {
		return err
	}
	for ctx.Err() == nil {
		w.poll(ctx)
		_ = cli.Pause(ctx, watchTests) // the loop ends with ctx
	}
	return nil
}

// watched is the state of the files for --watch.
type watched struct {
	*tester
	args    []string
	needs   map[string][]string // the files a test file was read from
	state   map[string]string   // the signature of a test file at its last run
	stamps  map[string]string   // the state of each file before this run read it
	printed string              // the last mistakes printed
}

// poll runs the test files affected by a change.
func (w *watched) poll(ctx context.Context) {
	files, err := testFiles(w.args)
	if err != nil {
		if text := err.Error(); text != w.printed {
			w.sh.Report(err)
			w.printed = text
		}
		return
	}
	w.printed = ""
	var affected, changed, deleted []string
	for file := range w.state {
		if !slices.Contains(files, file) {
			deleted = append(deleted, file)
			delete(w.state, file)
			delete(w.needs, file)
		}
	}
	if len(deleted) > 0 {
		w.sh.Hint("%s  deleted: %s", time.Now().Format(time.TimeOnly), cli.Printable(strings.Join(slices.Sorted(slices.Values(deleted)), ", ")))
	}
	for _, file := range files {
		if now := w.signature(file, stamp); now != w.state[file] {
			affected = append(affected, file)
			changed = append(changed, differing(w.state[file], now)...)
		}
	}
	if len(affected) == 0 {
		return
	}
	if len(w.state) > 0 {
		w.sh.Hint("%s  changed: %s", time.Now().Format(time.TimeOnly), cli.Printable(strings.Join(slices.Compact(slices.Sorted(slices.Values(changed))), ", ")))
	}
	clear(w.stamps)
	if _, err := w.batch(ctx, affected); err != nil && ctx.Err() == nil {
		w.sh.Report(err)
	}
	if ctx.Err() == nil {
		w.sh.Hint("watching %s; interrupt to stop", history.Count(len(files), "test file"))
	}
}

// ran records the files that a test file was read from: a later change to any of them
// reruns it.
func (w *watched) ran(f *testFile) {
	w.needs[f.name] = slices.Compact(slices.Sorted(slices.Values(f.needs)))
	w.state[f.name] = w.signature(f.name, func(name string) string {
		if known, ok := w.stamps[name]; ok {
			return known
		}
		return stamp(name)
	})
}

// readStamped reads a file that a test needs and records its state before.
func (w *watched) readStamped(file string) ([]byte, error) {
	if _, known := w.stamps[file]; !known {
		w.stamps[file] = stamp(file)
	}
	return readForTest(file)
}

// signature describes the states of a test file and all files that it needs.
func (w *watched) signature(file string, of func(name string) string) string {
	needs := w.needs[file]
	if needs == nil {
		needs = []string{file}
	}
	var out strings.Builder
	for _, name := range needs {
		fmt.Fprintf(&out, "%s\x00%s\n", name, of(name))
	}
	return out.String()
}

// differing returns the files that differ between two signatures of a test file.
func differing(before, now string) (names []string) {
	known := strings.Split(before, "\n")
	for line := range strings.Lines(now) {
		if name, _, _ := strings.Cut(line, "\x00"); !slices.Contains(known, strings.TrimSuffix(line, "\n")) {
			names = append(names, name)
		}
	}
	return names
}

// stamp describes the state of a file.
func stamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "gone"
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}
