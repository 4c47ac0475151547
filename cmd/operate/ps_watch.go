package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
)

// watchedListing is one run of ps --watch.
type watchedListing struct {
	*executionListing

	remote *cli.Remote
	query  store.ExecutionQuery

	seen  map[string]string // what was printed of each execution that is listed, by tenant and id
	shown string            // the table that is on the screen

	damaged unread // have been reported
}

// watchInterval is how often ps --watch reads the list.
const watchInterval = time.Second

// run prints the list, and what changes, until it is interrupted.
func (w *watchedListing) run(ctx context.Context) error {
	for {
		if err := w.sh.Outlast(ctx, func() error { return w.once(ctx) }); err != nil {
			return err
		}
		if err := cli.Pause(ctx, watchInterval); err != nil {
			return err
		}
	}
}

// once reads the list and prints what changed.
func (w *watchedListing) once(ctx context.Context) error {
	now, err := w.remote.Now(ctx, w.allTenants)
	if err != nil {
		return err
	}
	tenants, err := w.tenants(ctx, w.remote)
	if err != nil {
		return err
	}
	damaged := unread{}
	found, _, err := w.read(ctx, w.remote, tenants, w.query, damaged)
	if err != nil {
		return cli.BadID(err)
	}
	w.reportDamage(damaged)
	shown, err := rows(ctx, w.remote, found, now)
	if err != nil {
		return err
	}
	if w.sh.Terminal && (w.format.String() == "table" || w.format.String() == "wide") {
		return w.redraw(shown)
	}
	return w.changes(ctx, shown, now)
}

// reportDamage prints to stderr why executions cannot be read, once for each.
func (w *watchedListing) reportDamage(damaged unread) {
	for _, id := range slices.Sorted(maps.Keys(damaged)) {
		if w.damaged[id] == nil {
			w.sh.Report(damaged[id])
		}
	}
	w.damaged = damaged
}

// redraw clears the screen and prints the list.
func (w *watchedListing) redraw(shown []executionRow) error {
	screen, text := *w.sh, strings.Builder{}
	screen.Out = &text
	if err := w.list().Print(&screen, w.format, shown); err != nil {
		return err
	}
	if text.String() != w.shown {
		w.shown = text.String()
		fmt.Fprint(w.sh.Out, "\x1b[H\x1b[2J"+w.shown)
	}
	return nil
}

// changes prints a line for each execution that is new, has changed, or has left the list
// because it changed.
func (w *watchedListing) changes(ctx context.Context, shown []executionRow, now time.Time) error {
	gone, seen := maps.Clone(w.seen), make(map[string]string, len(shown))
	var changed []executionRow
	for _, row := range slices.Backward(shown) { // the newest last
		key, text := row.Tenant+" "+row.ID, fmt.Sprint(row.status(), row.Events)
		if w.seen[key] != text {
			changed = append(changed, row)
		}
		seen[key] = text
		delete(gone, key)
	}
	for key, text := range gone {
		tenant, id, _ := strings.Cut(key, " ")
		now, err := w.left(ctx, tenant, id, text, now)
		if err != nil {
			return err
		}
		changed = append(changed, now...)
	}
	w.seen = seen
	out := cli.Stream[executionRow]{Sh: w.sh, Format: w.format, Text: w.line, ID: w.list().ID}
	for _, row := range changed {
		out.Print(row)
	}
	return nil
}

// left returns the row of an execution that is no longer listed; none if it has not changed or no
// longer exists.
func (w *watchedListing) left(ctx context.Context, tenant, id, before string, now time.Time) ([]executionRow, error) {
	found, err := w.remote.Store.Outlines(ctx, tenant, id)
	if err != nil || found[0].Status == "" {
		return nil, err
	}
	out, err := rows(ctx, w.remote, found, now)
	if err != nil || fmt.Sprint(out[0].status(), out[0].Events) == before {
		return nil, err
	}
	return out, nil
}

// line prints a row immediately, so the columns of different rows are not aligned.
func (w *watchedListing) line(row executionRow) {
	var cells []string
	for _, c := range w.list().Columns {
		if !c.Wide || w.format.String() == "wide" {
			cells = append(cells, w.sh.Cell(c.Text(row)))
		}
	}
	fmt.Fprintln(w.sh.Out, strings.Join(cells, "  "))
}
