package operate

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/stream"
)

// NewDeadLettersCommand returns the command flunq dlq.
func NewDeadLettersCommand(sh *cli.Shell) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "dlq",
		Short: "List, replay and drop dead letters",
		Long: `Dead letters are events that no service could handle: they could not be read, or handling
them failed too many times. They are kept until an operator replays or drops them.`,
		Example: `  flunq dlq ls --since 1h
  flunq dlq replay --all --service executor-service --rate 10/s
  flunq dlq replay --all --simulate --workflow v2.yaml --mocks order.mocks.yaml`,
		GroupID: cli.GroupOperate,
	}, newDeadLettersListCommand(sh), newDeadLetterShowCommand(sh), newDeadLettersReplayCommand(sh),
		newDeadLettersDropCommand(sh))
}

func newDeadLettersListCommand(sh *cli.Shell) *cobra.Command {
	l := &deadLetterListing{}
	c := &cobra.Command{
		Use:   "ls",
		Short: "List dead letters, the newest first",
		Long: `Lists the dead letters of a tenant, newest first.

If flunq.io keeps a stream for each workflow (tenant:*:workflow:*:events), the dead
letters in these streams are also listed, with the stream in their id. The search ends
after some 10,000 keys, and after 10,000 events of each stream; --other-streams
searches everything.`,
		Example: `  flunq dlq ls --since 1h --reason timeout
  flunq dlq ls --all-tenants -o wide
  flunq dlq ls --execution order-7 -o jsonl | jq -r .reason`,
		Aliases: []string{"list"},
		Args:    cli.NoArguments,
	}
	l.command = newCommand(c, sh)
	l.filter = deadLetterFlags(c)
	cli.LimitFlag(c, &l.limit, 50, "list at most `N`; 0: all")
	c.Flags().StringVar(&l.after, "after", "", "continue after the dead letter `ID`")
	c.RunE = l.target.Run(l.run)
	return c
}

// deadLetterListing is one run of dlq ls.
type deadLetterListing struct {
	command

	filter *deadLetterFilter
	after  string
	limit  int
}

// run lists what can be read, even if a master of a cluster does not respond, and returns an error that
// says what is missing.
func (l *deadLetterListing) run(ctx context.Context, r *cli.Remote, _ []string) error {
	now, err := r.Now(ctx, l.filter.allTenants)
	if err != nil {
		return err
	}
	found, missing := l.filter.newest(ctx, r, now, l.after, l.limit)
	if len(found) == 0 && missing != nil {
		return missing
	}
	more := l.limit > 0 && len(found) > l.limit
	if more {
		found = found[:l.limit]
	}
	rows := make([]deadLetterRow, 0, len(found))
	for _, deadLetter := range found {
		rows = append(rows, deadLetterRowOf(r, deadLetter, now))
	}
	if err := deadLetterList().Print(l.sh, l.format, rows); err != nil {
		return err
	}
	if more {
		l.sh.Hint("more with --after %s", cli.Printable(rows[len(rows)-1].ID))
	}
	return missing
}

// deadLetterRow is a dead letter in a listing.
type deadLetterRow struct {
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
	Problem   string     `json:"problem,omitempty"` // why it cannot be replayed
	Action    string     `json:"action,omitempty"`  // of a command that changes it
	Done      *bool      `json:"done,omitempty"`
}

func deadLetterRowOf(r *cli.Remote, l stream.DeadLetter, now time.Time) deadLetterRow {
	row := deadLetterRow{
		ID: deadLetterRef(r, l), Tenant: l.Tenant, Stream: l.Stream, DiedAt: l.Died, AgeMS: now.Sub(l.Died).Milliseconds(),
		Service: l.Service, Reason: l.Reason, Attempts: l.Attempts, Replays: l.Replayed, Type: l.Event.Type,
		Event: l.Event.ID, Workflow: l.Event.Workflow, Execution: l.Event.Execution, Task: l.Event.Task,
	}
	if l.Err != nil {
		row.Problem = l.Err.Error()
	}
	return row
}

func (l deadLetterRow) age() string {
	return history.Duration((time.Duration(max(l.AgeMS, 0)) * time.Millisecond).Round(time.Second))
}

func deadLetterList() cli.List[deadLetterRow] {
	return cli.List[deadLetterRow]{
		Columns: []cli.Column[deadLetterRow]{
			{Title: "ID", Text: func(l deadLetterRow) string { return l.ID }},
			{Title: "AGE", Text: deadLetterRow.age},
			{Title: "SERVICE", Text: func(l deadLetterRow) string { return strings.TrimSuffix(l.Service, "-service") }},
			{Title: "EVENT", Text: func(l deadLetterRow) string { return strings.TrimPrefix(string(l.Type), event.Prefix) }},
			{Title: "EXECUTION", Text: func(l deadLetterRow) string { return l.Execution }},
			{Title: "REASON", Text: func(l deadLetterRow) string { return l.Reason }},
			{Title: "TASK", Wide: true, Text: func(l deadLetterRow) string { return history.Task(l.Task) }},
			{Title: "WORKFLOW", Wide: true, Text: func(l deadLetterRow) string { return l.Workflow }},
			{Title: "TENANT", Wide: true, Text: func(l deadLetterRow) string { return l.Tenant }},
			{Title: "ATTEMPTS", Wide: true, Text: func(l deadLetterRow) string { return strconv.Itoa(l.Attempts) }},
			{Title: "REPLAYS", Wide: true, Text: func(l deadLetterRow) string { return strconv.Itoa(l.Replays) }},
		},
		ID:    func(l deadLetterRow) string { return l.ID },
		Empty: "no dead letters",
	}
}
