package cmd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

func newDeadLettersCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "List, replay and drop dead letters",
		Long: `Dead letters are events that a service gave up: nobody could read them, or handling them
failed too often. They stay until somebody brings them back or drops them.`,
		Example: `  flunq dlq ls --since 1h
  flunq dlq replay --all --service executor-service --rate 10/s
  flunq dlq replay --all --simulate --workflow v2.yaml --mocks order.mocks.yaml`,
		GroupID: groupOperate,
		Args:    knownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newLettersListCommand(sh), newLetterShowCommand(sh), newLettersReplayCommand(sh), newLettersDropCommand(sh))
	return c
}

func newLettersListCommand(sh *shell) *cobra.Command {
	l := &letterListing{sh: sh}
	c := &cobra.Command{
		Use:   "ls",
		Short: "List dead letters, the newest first",
		Long: `Lists the dead letters of a tenant, the newest first.

Where flunq.io keeps a stream for each workflow (tenant:*:workflow:*:events), the dead
letters in there are listed too, with the stream in their id. A few thousand keys are
looked at for such streams, and 10,000 events of each; with --other-streams all are.`,
		Example: `  flunq dlq ls --since 1h --reason timeout
  flunq dlq ls --all-tenants -o wide
  flunq dlq ls --execution order-7 -o jsonl | jq -r .reason`,
		Aliases: []string{"list"},
		Args:    noArguments,
	}
	l.target = targetFlags(c, sh)
	l.format = listFlag(c)
	l.filter = letterFlags(c)
	c.Flags().IntVar(&l.limit, "limit", 50, "list at most `N`; 0: all")
	c.Flags().StringVar(&l.after, "after", "", "start after the dead letter with this `ID`")
	c.RunE = func(c *cobra.Command, _ []string) error { return l.run(c.Context()) }
	return c
}

// letterListing is one run of dlq ls.
type letterListing struct {
	sh     *shell
	target *target
	format *choice
	filter *letterFilter
	after  string
	limit  int
}

func (l *letterListing) run(ctx context.Context) error {
	if l.limit < 0 {
		return misusef("--limit %d: want 0 or more", l.limit)
	}
	r, err := l.target.connect(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	now, err := r.store.Now(ctx)
	if err != nil {
		return err
	}
	found, err := l.filter.newest(ctx, r, now, l.after, l.limit)
	if err != nil {
		return err
	}
	more := l.limit > 0 && len(found) > l.limit
	if more {
		found = found[:l.limit]
	}
	rows := make([]letterRow, 0, len(found))
	for _, letter := range found {
		rows = append(rows, letterRowOf(r, letter, now))
	}
	if err := letterTable(l.sh, l.format, rows); err != nil {
		return err
	}
	if more {
		l.sh.hint("there are more: --after %s", printable(rows[len(rows)-1].ID))
	}
	return nil
}

// letterRow is a dead letter as it is shown.
type letterRow struct {
	ID        string     `json:"id"`
	Tenant    string     `json:"tenant"`
	Stream    string     `json:"stream"`
	DiedAt    time.Time  `json:"died_at"`
	AgeMS     int64      `json:"age_ms"`
	Service   string     `json:"service,omitempty"`
	Reason    string     `json:"reason"`
	Attempts  int        `json:"attempts"`
	Replays   int        `json:"replays"`
	Type      event.Type `json:"type,omitempty"`
	Event     string     `json:"event,omitempty"`
	Workflow  string     `json:"workflow,omitempty"`
	Execution string     `json:"execution,omitempty"`
	Task      string     `json:"task,omitempty"`
	Problem   string     `json:"problem,omitempty"` // why it cannot be brought back
}

func letterRowOf(r *remote, l store.Letter, now time.Time) letterRow {
	row := letterRow{
		ID: letterRef(r, l), Tenant: l.Tenant, Stream: l.Stream, DiedAt: l.Died, AgeMS: now.Sub(l.Died).Milliseconds(),
		Service: l.Service, Reason: l.Reason, Attempts: l.Attempts, Replays: l.Replayed, Type: l.Event.Type,
		Event: l.Event.ID, Workflow: l.Event.Workflow, Execution: l.Event.Execution, Task: l.Event.Task,
	}
	if l.Err != nil {
		row.Problem = l.Err.Error()
	}
	return row
}

func (l letterRow) age() string {
	return history.Duration((time.Duration(max(l.AgeMS, 0)) * time.Millisecond).Round(time.Second))
}

func letterTable(sh *shell, format *choice, rows []letterRow) error {
	return list[letterRow]{
		columns: []column[letterRow]{
			{"ID", false, func(l letterRow) string { return l.ID }},
			{"AGE", false, letterRow.age},
			{"SERVICE", false, func(l letterRow) string { return strings.TrimSuffix(l.Service, "-service") }},
			{"EVENT", false, func(l letterRow) string { return strings.TrimPrefix(string(l.Type), event.Prefix) }},
			{"EXECUTION", false, func(l letterRow) string { return l.Execution }},
			{"REASON", false, func(l letterRow) string { return l.Reason }},
			{"TASK", true, func(l letterRow) string { return history.Task(l.Task) }},
			{"WORKFLOW", true, func(l letterRow) string { return l.Workflow }},
			{"TENANT", true, func(l letterRow) string { return l.Tenant }},
			{"ATTEMPTS", true, func(l letterRow) string { return strconv.Itoa(l.Attempts) }},
			{"REPLAYS", true, func(l letterRow) string { return strconv.Itoa(l.Replays) }},
		},
		id:    func(l letterRow) string { return l.ID },
		empty: "no dead letters",
	}.print(sh, format, rows)
}
