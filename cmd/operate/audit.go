package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// auditCommand is one run of the command audit.
type auditCommand struct {
	command

	since, by string
}

// NewAuditCommand returns the command flunq audit.
func NewAuditCommand(sh *cli.Shell) *cobra.Command {
	a := &auditCommand{}
	c := &cobra.Command{
		Use:   "audit [ID…]",
		Short: "Show what operators did",
		Long: `Shows what operators did, oldest first: to executions and their timers, as the histories
record it, and what no history records: removed executions, registered and removed workflows,
replayed and dropped dead letters, fired inputs, and changes to timers that start executions.
The last 10,000 such entries of a tenant are kept. They are written before the command acts,
so there may be one for a command that then failed.

With IDs it shows what was done to these executions. Without IDs it reads the histories of
all executions that were open after --since, which takes seconds for 100,000 short ones.`,
		Example: `  flunq audit order-7
  flunq audit --since P7D --by ada@laptop
  flunq audit --since 1h -o json | jq '.[] | select(.action == "cancel")'`,
		GroupID: cli.GroupOperate,
	}
	a.command = newCommand(c, sh)
	c.Flags().StringVar(&a.since, "since", "", "only in the last `DURATION` (1h, 3d, P1D), or after a time (default P7D without IDs)")
	c.Flags().StringVar(&a.by, "by", "", "only by the operator `NAME`")
	c.ValidArgsFunction = cli.CompleteExecutions(a.target)
	c.RunE = a.target.RunAt(a.run)
	return c
}

// local reports whether times are printed in the local zone.
func (a *auditCommand) local() bool {
	return slices.Contains([]string{"table", "wide"}, a.format.String())
}

// auditRow is something that an operator did.
type auditRow struct {
	Time    time.Time `json:"time"`
	By      string    `json:"by"`
	Action  string    `json:"action"`
	Subject string    `json:"subject"` // an execution, or what was removed, registered, replayed or dropped
	Task    string    `json:"task,omitempty"`
	Version int64     `json:"version,omitempty"` // of the event in the execution's history
	Detail  string    `json:"detail,omitempty"`
}

func (a *auditCommand) run(ctx context.Context, r *cli.Remote, now time.Time, ids []string) error {
	if len(ids) == 0 {
		a.since = cmp.Or(a.since, "P7D")
	}
	since, err := sinceFlag("since", a.since, now)
	if err != nil {
		return err
	}
	var rows []auditRow
	damaged := unread{}
	if len(ids) > 0 {
		rows, err = a.ofExecutions(ctx, r, ids, since)
	} else {
		rows, err = a.ofAll(ctx, r, since, damaged)
	}
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(row auditRow) bool { return a.by != "" && row.By != a.by || row.Time.Before(since) })
	slices.SortStableFunc(rows, func(a, b auditRow) int { return a.Time.Compare(b.Time) })
	return errors.Join(damaged.err(), cli.List[auditRow]{
		Columns: []cli.Column[auditRow]{
			{Title: "TIME", Text: func(w auditRow) string { return cli.MomentMillis(w.Time) }},
			{Title: "BY", Text: func(w auditRow) string { return w.By }},
			{Title: "ACTION", Text: func(w auditRow) string { return w.Action }},
			{Title: "SUBJECT", Text: func(w auditRow) string { return w.Subject }},
			{Title: "TASK", Text: func(w auditRow) string { return history.Task(w.Task) }},
			{Title: "DETAIL", Text: func(w auditRow) string { return w.Detail }},
		},
		ID:    func(w auditRow) string { return w.Subject },
		Empty: "no such operator actions are recorded",
	}.Print(a.sh, a.format, rows))
}

// ofExecutions returns what was done to executions.
func (a *auditCommand) ofExecutions(ctx context.Context, r *cli.Remote, ids []string, since time.Time) (rows []auditRow, err error) {
	trail, err := r.Store.AuditTrail(ctx, r.Tenant, since)
	if err != nil {
		return nil, err
	}
	trailed := map[string]bool{}
	for _, e := range trail {
		subjects := slices.DeleteFunc(strings.Fields(e.Subject), func(id string) bool { return !slices.Contains(ids, id) })
		for _, id := range subjects {
			trailed[id] = true
		}
		if len(subjects) > 0 {
			rows = append(rows, a.trailRow(e))
		}
	}
	for _, id := range ids {
		x, err := cli.FindExecution(ctx, r, id)
		if errors.Is(err, store.ErrNotFound) && trailed[id] {
			continue // it was removed
		}
		if err != nil {
			return nil, err
		}
		if rows, err = a.ofHistory(ctx, r, x, rows); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// ofAll returns what was done in the tenant. It skips executions that ended before since: only
// a retry could have changed them, and then they ended later. It adds executions that cannot be
// read to damaged.
func (a *auditCommand) ofAll(ctx context.Context, r *cli.Remote, since time.Time, damaged unread) (rows []auditRow, err error) {
	trail, err := r.Store.AuditTrail(ctx, r.Tenant, since)
	if err != nil {
		return nil, err
	}
	for _, e := range trail {
		rows = append(rows, a.trailRow(e))
	}
	q := store.ExecutionQuery{Limit: batchSize, Damaged: damaged.of(r.Tenant), Pass: func(x store.Execution) bool {
		return x.Version > 0 && (x.EndedAt.IsZero() || !x.EndedAt.Before(since))
	}}
	for {
		some, next, err := r.Store.Executions(ctx, r.Tenant, q)
		if err != nil {
			return nil, err
		}
		if rows, err = a.ofSome(ctx, r, some, rows); err != nil {
			return nil, err
		}
		if next == "" {
			return rows, nil
		}
		q.After = next
	}
}

// shortHistory is the number of entries up to which histories are read together.
const shortHistory = 100

// ofSome adds what the histories of some executions record. It reads short ones in one round trip.
func (a *auditCommand) ofSome(ctx context.Context, r *cli.Remote, some []store.Execution, rows []auditRow) ([]auditRow, error) {
	short, err := r.Store.WithHistories(ctx, r.Tenant, actions.IDs(some), shortHistory)
	if err != nil {
		return nil, err
	}
	whole := map[string]bool{}
	for _, x := range short {
		whole[x.ID] = true
		rows = (&auditedHistory{command: a, of: x.Execution}).add(rows, x.History)
	}
	for _, x := range some {
		if whole[x.ID] {
			continue
		}
		if rows, err = a.ofHistory(ctx, r, x, rows); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// ofHistory adds what a history records. It reads an incomplete history as far as possible.
func (a *auditCommand) ofHistory(ctx context.Context, r *cli.Remote, x store.Execution, rows []auditRow) ([]auditRow, error) {
	h := &auditedHistory{command: a, of: x}
	err := readHistory(ctx, a.sh, r, x, 0, false, func(_ store.Execution, _ int64, events []event.Event) error {
		rows = h.add(rows, events)
		return nil
	})
	return rows, err
}

// auditedHistory is a history that has been read up to a version.
type auditedHistory struct {
	command *auditCommand
	of      store.Execution
	version int64
	reset   time.Time            // zero if it does not begin with a reset
	movedTo map[string]time.Time // of the timers that an operator has moved
}

// add adds what the next events record. What a reset has copied from another execution's history
// was not done to this one.
func (h *auditedHistory) add(rows []auditRow, events []event.Event) []auditRow {
	for _, e := range events {
		h.version++
		if h.command.local() {
			e.Time = e.Time.Local() // its description has times in the same zone
		}
		row, ok := h.row(e)
		if ok && row.Time.After(h.reset) {
			rows = append(rows, row)
		}
		if ok && row.Action == "reset" {
			h.reset = row.Time
		}
	}
	return rows
}

// row converts the event of the current version; ok is false if it is not an operator's.
func (h *auditedHistory) row(e event.Event) (row auditRow, ok bool) {
	if !strings.Contains(string(e.Data), `"by":`) {
		return row, false
	}
	entry := history.Read(h.version, e)
	d := entry.Data
	if d == nil || strings.HasPrefix(entry.Type, "workflow.") { // the event before it says the same
		return row, false
	}
	row = auditRow{Time: e.Time, By: d.By, Subject: h.of.ID, Task: e.Task, Version: h.version, Detail: d.Reason}
	if d.Reset != nil && e.Type == event.ExecutionStarted {
		row.Time, row.By, row.Action, row.Task = d.Reset.At, d.Reset.By, "reset", d.Reset.Task
		row.Detail = strings.TrimSuffix("of "+d.Reset.Execution+": "+d.Reset.Reason, ": ")
		return row, true
	}
	row.Action = operatorActions()[e.Type]
	if what, of := strings.CutPrefix(entry.Type, "execution."); of && row.Action == "" {
		row.Action = what
	}
	timer := history.TimerName(d.Kind, d.Key)
	switch e.Type {
	case event.ExecutionMigrated:
		row.Detail = strings.TrimSuffix(fmt.Sprintf("from version %s to %s: %s", d.FromVersion, d.Version, d.Reason), ": ")
	case event.ExecutionRestored:
		row.Detail = strings.TrimPrefix(entry.Text, "by "+d.By+": ")
	case event.TimerFired, event.TimerCancelled:
		row.Detail = timer
	case event.TimerScheduled:
		row.Detail = timer + " to " + entry.Until.In(e.Time.Location()).Format(time.RFC3339Nano)
		if d.MovedTo.IsZero() || d.MovedTo.Equal(h.movedTo[timer+e.Task]) { // it keeps its time
			row.Action = "timer restore"
		}
		if h.movedTo == nil {
			h.movedTo = map[string]time.Time{}
		}
		h.movedTo[timer+e.Task] = d.MovedTo
	default:
	}
	return row, row.By != "" && row.Action != ""
}

// operatorActions returns the commands that events of a history can record.
func operatorActions() map[event.Type]string {
	return map[event.Type]string{
		event.ExecutionCancelled: "cancel", event.ExecutionSuspended: "suspend", event.ExecutionResumed: "resume",
		event.ExecutionRetried: "retry", event.ExecutionRestored: "restore", event.ExecutionMigrated: "migrate",
		event.TimerFired: "timer fire", event.TimerCancelled: "timer cancel", event.TimerScheduled: "timer move",
	}
}

// trailRow converts an entry of the trail. A detail may end with the time to which a timer was moved.
func (a *auditCommand) trailRow(e store.AuditEntry) auditRow {
	last := strings.LastIndex(e.Detail, " ") + 1
	if at, err := time.Parse(time.RFC3339Nano, e.Detail[last:]); err == nil && a.local() {
		e.Detail = e.Detail[:last] + cli.Moment(at)
	}
	return auditRow{Time: e.At, By: e.By, Action: e.Action, Subject: e.Subject, Detail: e.Detail}
}
