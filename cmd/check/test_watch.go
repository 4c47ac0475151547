package check

import (
	"cmp"
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
	w := &watched{tester: t, args: args, state: map[string]map[string]string{}, stamps: map[string]string{}}
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
	state   map[string]map[string]string // of each test file: the stamps of all files it was read from, at its last run
	stamps  map[string]string            // of each file, before this run read it
	printed string                       // the last mistakes printed
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
		}
	}
	if len(deleted) > 0 {
		w.sh.Hint("%s  deleted: %s", time.Now().Format(time.TimeOnly), cli.Printable(strings.Join(slices.Sorted(slices.Values(deleted)), ", ")))
	}
	for _, file := range files {
		if some := w.changed(file); len(some) > 0 {
			affected, changed = append(affected, file), append(changed, some...)
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
	state := map[string]string{}
	for _, name := range slices.Concat(f.needs, []string{f.name}) {
		state[name] = cmp.Or(w.stamps[name], stamp(name))
	}
	w.state[f.name] = state
}

// changed returns the files that have changed since a test file ran, or the test file itself if it has
// not run yet.
func (w *watched) changed(file string) (names []string) {
	state, ran := w.state[file]
	if !ran {
		return []string{file}
	}
	for name, before := range state {
		if stamp(name) != before {
			names = append(names, name)
		}
	}
	return names
}

// readStamped reads a file that a test needs and records its state before.
func (w *watched) readStamped(file string) ([]byte, error) {
	if _, known := w.stamps[file]; !known {
		w.stamps[file] = stamp(file)
	}
	return readForTest(file)
}

// stamp describes the state of a file.
func stamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "gone"
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}
