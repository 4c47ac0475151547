package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/timers"
)

// NewTimersCommand returns the command flunq timers.
func NewTimersCommand(sh *cli.Shell) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "timers",
		Short: "List, fire, cancel, move and restore timers",
		Long: `Timers are the pending delays of executions: waits, retries, timeouts, and events that
other programs have scheduled. They fire by the clock of Redis. Changes are recorded in
the history of the execution, with the name of the operator (--as, FLUNQ_USER, or
user@host).`,
		Example: `  flunq timers ls --due 1h
  flunq timers fire hk2x9c1f2g0-5b1c      # do not wait for it
  flunq timers reschedule hk2x9c1f2g0-5b1c --in 10m
  flunq timers restore order-7            # restore cancelled or lost timers`,
		GroupID: cli.GroupOperate,
	}, newTimersListCommand(sh), newTimersShowCommand(sh), newTimersFireCommand(sh), newTimersCancelCommand(sh),
		newTimersMoveCommand(sh), newTimersRestoreCommand(sh))
}

// timerListing is one run of timers ls.
type timerListing struct {
	command

	due, workflow, execution, kind, after string
	overdue, allTenants, others           bool
	limit                                 int
}

func newTimersListCommand(sh *cli.Shell) *cobra.Command {
	l := &timerListing{}
	c := &cobra.Command{
		Use:   "ls",
		Short: "List timers in the order in which they fire",
		Long: `Lists the timers of a tenant, the next one first, by the clock of Redis.

If flunq.io keeps a stream for each workflow (tenant:*:workflow:*:events), timers that
exist only in these streams are listed at the end of the first page, as "not registered":
no service will fire them. The search for such streams ends after some 10,000 keys;
--other-streams searches all keys.`,
		Example: `  flunq timers ls --due 1h
  flunq timers ls --overdue --all-tenants -o wide
  flunq timers ls --execution order-7 -o json | jq '.[].due'`,
		Aliases: []string{"list"},
		Args:    cli.NoArguments,
	}
	l.command = newCommand(c, sh)
	f := c.Flags()
	f.StringVar(&l.due, "due", "", "only those overdue, or due within `DURATION` (1h, 3d, PT30M)")
	f.BoolVar(&l.overdue, "overdue", false, "only those that should already have fired")
	f.StringVar(&l.workflow, "workflow", "", "only those of the workflow `NAME`, with or without its namespace")
	f.StringVar(&l.execution, "execution", "", "only those of the execution `ID`")
	f.StringVar(&l.kind, "kind", "", "only those of the kind `KIND`: wait, timeout, retry, delivery, input, start")
	cli.AllTenantsFlag(c, &l.allTenants, "include all tenants")
	cli.LimitFlag(c, &l.limit, 50, "list at most `N`; 0: all")
	f.StringVar(&l.after, "after", "", "continue after the timer `ID`")
	f.BoolVar(&l.others, "other-streams", false, "search all keys for timers that are only in a stream of their workflow")
	kinds := []string{string(event.WaitTimer), string(event.TimeoutTimer), string(event.RetryTimer), string(event.DeliveryTimer), string(event.InputTimer), string(event.StartTimer)}
	cli.Offer(c, "kind", cli.NewChoice(kinds...))
	cli.Exclude(c, "overdue", "due", "other-streams")
	c.PreRunE = func(*cobra.Command, []string) error {
		if l.kind != "" && !slices.Contains(kinds, l.kind) {
			return cli.Misusef("--kind %q: want %s", l.kind, cli.OneOf(kinds))
		}
		return nil
	}
	c.RunE = l.target.Run(l.run)
	return c
}

// run lists what can be read, even if a master of a cluster does not respond, and returns an error that
// says what is missing.
func (l *timerListing) run(ctx context.Context, r *cli.Remote, _ []string) error {
	now, err := r.Now(ctx, l.allTenants)
	if err != nil {
		return err
	}
	filter, err := l.filter(r, now)
	if err != nil {
		return err
	}
	found, next, missing := timers.New(r.Store).List(ctx, filter, l.after, cmp.Or(l.limit, math.MaxInt))
	if missing != nil && len(found) == 0 {
		return cli.BadID(missing)
	}
	lost, err := l.unregistered(ctx, r, filter)
	if err != nil && len(found) == 0 {
		return err
	}
	if err != nil {
		err = fmt.Errorf("timers in other streams, if there are any, are missing: %w", err)
	}
	if err := l.print(append(found, lost...), now); err != nil {
		return err
	}
	if next != "" {
		l.sh.Hint("more with --after %s", next)
	}
	return errors.Join(missing, err)
}

// filter builds the filter from the flags.
func (l *timerListing) filter(r *cli.Remote, now time.Time) (timers.Filter, error) {
	f := timers.Filter{Tenant: r.Tenant, Workflow: l.workflow, Execution: l.execution, Kind: event.TimerKind(l.kind)}
	if l.allTenants {
		f.Tenant = ""
	}
	var err error
	switch {
	case l.overdue:
		f.Until = now
	case l.due != "":
		f.Until, err = delayFlag("due", l.due, now)
	}
	return f, err
}

// Bounds of the search for other streams without --other-streams: the number of SCAN calls,
// and of the newest events of each stream.
const (
	fewScans   = 10
	fewEntries = 10_000
)

// unregistered returns the timers that no service will fire. They follow those on the first
// page.
func (l *timerListing) unregistered(ctx context.Context, r *cli.Remote, f timers.Filter) ([]timers.Pending, error) {
	if l.overdue || l.after != "" {
		return nil, nil
	}
	streams, entries, err := otherStreams(ctx, r, f.Tenant, l.others)
	if err != nil {
		return nil, err
	}
	var found []timers.Pending
	for _, stream := range streams {
		lost, err := inspect.New(r.Store).Unregistered(ctx, stream, entries)
		if err != nil {
			return nil, err
		}
		for _, p := range lost {
			if f.Matches(p) && (f.Until.IsZero() || !p.Moment().After(f.Until)) {
				found = append(found, p)
			}
		}
	}
	return found, nil
}

// otherStreams finds the streams of the other key scheme and returns how many events of
// each to read. Without all, both are bounded.
func otherStreams(ctx context.Context, r *cli.Remote, tenant string, all bool) ([]inspect.OtherStream, int, error) {
	scans, entries := fewScans, fewEntries
	if all {
		scans, entries = math.MaxInt, math.MaxInt
	}
	tenant = cmp.Or(tenant, "*")
	streams, _, err := inspect.New(r.Store).OtherStreams(ctx, tenant, scans)
	return streams, entries, err
}

// timerRow is a timer in a listing.
type timerRow struct {
	ID         string          `json:"id,omitempty"`
	State      string          `json:"state"`
	Due        time.Time       `json:"due"`
	DueInMS    *int64          `json:"due_in_ms,omitempty"` // absent if it will not fire
	Kind       event.TimerKind `json:"kind"`
	Tenant     string          `json:"tenant"`
	Workflow   string          `json:"workflow,omitempty"`
	Execution  string          `json:"execution,omitempty"`
	Task       string          `json:"task,omitempty"`
	TaskName   string          `json:"task_name,omitempty"`
	Key        string          `json:"key,omitempty"`
	FireAt     time.Time       `json:"fire_at"`
	Moved      bool            `json:"moved,omitempty"`
	Parked     bool            `json:"parked,omitempty"`     // an input that no task has taken yet
	Event      string          `json:"event_type,omitempty"` // of an input
	DurationMS int64           `json:"duration_ms,omitempty"`
	Stream     string          `json:"stream,omitempty"`
	Entry      string          `json:"entry,omitempty"`
	Problem    string          `json:"problem,omitempty"`
	By         string          `json:"cancelled_by,omitempty"` // the operator
}

// The states of timers. A timer in one of the last three states is needed but not set.
const (
	timerWaiting      = "waiting"
	timerOverdue      = "overdue"
	timerUnregistered = "not registered"
	timerUnreadable   = "unreadable"
	timerCancelled    = "cancelled" // by an operator
	timerMissing      = "missing"
	timerUnset        = "not set yet"
)

func timerRowOf(p timers.Pending, now time.Time) timerRow {
	row := timerRow{
		ID: p.ID, State: timerWaiting, Due: p.Moment().UTC(), Kind: p.Kind, Tenant: p.Tenant, Workflow: p.Workflow,
		Execution: p.Execution, Task: p.TaskID, TaskName: p.TaskName, Key: p.Key, FireAt: p.FireAt.UTC(),
		Moved: !p.MovedTo.IsZero(), DurationMS: p.DurationMS, Stream: p.Stream, Entry: p.Entry,
	}
	row.Event, row.Parked = actions.InputType(p), p.Kind == event.InputTimer && !p.ParkedUntil.IsZero()
	left := event.Milliseconds(now, row.Due)
	row.DueInMS = &left
	switch {
	case p.Err != nil:
		row.State, row.Kind, row.Problem = timerUnreadable, "", p.Err.Error()
	case p.Stream != "":
		row.State = timerUnregistered
	case p.ID == "":
		row.State = timerUnset
	case row.Due.Before(now):
		row.State = timerOverdue
	}
	return row
}

// neededRow is a timer that an execution needs.
func neededRow(needed examine.Needed, now time.Time) timerRow {
	row := timerRowOf(needed.Pending, now)
	switch {
	case needed.ID != "":
		return row
	case needed.CancelledBy != "":
		row.State, row.By = timerCancelled, needed.CancelledBy
	case needed.Missing:
		row.State = timerMissing
	default:
		row.State = timerUnset
		return row
	}
	row.DueInMS = nil
	return row
}

// name returns the id, or why the timer has none.
func (t timerRow) name() string {
	switch {
	case t.ID != "":
		return t.ID
	case t.By != "":
		return "(cancelled by " + t.By + ")"
	default:
		return "(" + t.State + ")"
	}
}

// dueIn formats the time left.
func (t timerRow) dueIn() string {
	if t.DueInMS == nil {
		return ""
	}
	return history.Milliseconds(*t.DueInMS)
}

// subject returns the task, or the event of an input.
func (t timerRow) subject() string { return cmp.Or(t.Event, history.Task(t.Task)) }

func (t timerRow) kind() string {
	switch {
	case t.State == timerUnreadable || t.State == timerUnregistered:
		return strings.TrimSpace(string(t.Kind) + " (" + t.State + ")")
	case t.Parked:
		return string(t.Kind) + " (parked)"
	case t.Moved:
		return string(t.Kind) + " (moved)"
	default:
		return string(t.Kind)
	}
}

func (l *timerListing) print(found []timers.Pending, now time.Time) error {
	rows := make([]timerRow, 0, len(found))
	for _, p := range found {
		rows = append(rows, timerRowOf(p, now))
	}
	return cli.List[timerRow]{
		Columns: []cli.Column[timerRow]{
			{Title: "ID", Text: func(t timerRow) string { return t.ID }},
			{Title: "DUE IN", Text: timerRow.dueIn},
			{Title: "DUE AT", Text: func(t timerRow) string { return cli.Moment(t.Due) }},
			{Title: "KIND", Text: timerRow.kind},
			{Title: "EXECUTION", Text: func(t timerRow) string { return t.Execution }},
			{Title: "TASK", Text: timerRow.subject},
			{Title: "WORKFLOW", Wide: true, Text: func(t timerRow) string { return t.Workflow }},
			{Title: "TENANT", Wide: !l.allTenants, Text: func(t timerRow) string { return t.Tenant }},
			{Title: "KEY", Wide: true, Text: func(t timerRow) string { return t.Key }},
			{Title: "DURATION", Wide: true, Text: func(t timerRow) string { return actions.Milliseconds(t.DurationMS) }},
		},
		ID:    func(t timerRow) string { return t.ID },
		Empty: "no timers",
	}.Print(l.sh, l.format, rows)
}

// completeTimers completes the ids of the next timers.
func completeTimers(t *cli.Target) cobra.CompletionFunc {
	return cli.Complete(t, func(ctx context.Context, r *cli.Remote) (ids []string, err error) {
		found, _, err := timers.New(r.Store).List(ctx, timers.Filter{Tenant: r.Tenant}, "", 50)
		for _, p := range found {
			ids = append(ids, fmt.Sprintf("%s\t%s", p.ID, cli.Printable(fmt.Sprint(p.Kind, " of ", p.Execution, p.TaskID))))
		}
		return ids, err
	})
}
