package operate

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
)

// outcomes returns the possible outcomes of an input.
func outcomes() []string {
	return []string{string(store.InputAccepted), string(store.InputRejected), string(store.InputParked), string(store.InputCompleted)}
}

// inputListing is one run of inputs ls.
type inputListing struct {
	command

	execution, outcome, before string
	limit                      int
}

// NewInputsCommand returns the command flunq inputs.
func NewInputsCommand(sh *cli.Shell) *cobra.Command {
	l := &inputListing{}
	ls := &cobra.Command{
		Use:   "ls",
		Short: "List recorded inputs, the newest first",
		Long:  `Lists the recorded inputs of a tenant, newest first. About 10,000 are kept.`,
		Example: `  flunq inputs ls --outcome rejected
  flunq inputs ls --execution order-7 -o json`,
		Aliases: []string{"list"},
		Args:    cli.NoArguments,
	}
	l.command = newCommand(ls, sh)
	f := ls.Flags()
	f.StringVar(&l.execution, "execution", "", "only those for the execution `ID`")
	f.StringVar(&l.outcome, "outcome", "", "only those with the `OUTCOME`: "+cli.OneOf(outcomes()))
	f.StringVar(&l.before, "before", "", "continue before the record `ID`")
	cli.LimitFlag(ls, &l.limit, 50, "list at most `N`; 0: all")
	cli.Offer(ls, "outcome", cli.NewChoice(outcomes()...))
	cli.CompleteFlag(ls, "execution", cli.CompleteExecutions(l.target))
	ls.PreRunE = func(*cobra.Command, []string) error {
		if !entryID(l.before) {
			return cli.Misusef("--before %q: want the id of a record, as 'flunq inputs ls -o ids' prints it", l.before)
		}
		if l.outcome != "" && !slices.Contains(outcomes(), l.outcome) {
			return cli.Misusef("--outcome %q: want %s", l.outcome, cli.OneOf(outcomes()))
		}
		return nil
	}
	ls.RunE = l.target.Run(l.run)
	return cli.Group(&cobra.Command{
		Use:   "inputs",
		Short: "List the outcomes of events for single executions",
		Long: `An event is received by every execution that listens for it. An input is an
event for one execution. It can wait, and it has a key:

  flunq emit --execution order-7 --type com.shop.unpaid --after PT30M --key paid

  --after DURATION, --at TIME   when it is delivered (default: now)
  --key KEY                     a later input with the same key replaces it
  --on-reject WHAT              if no task listens for it: drop (default),
                                park=DURATION (keep it for a task that begins
                                to listen), or dead-letter

  flunq timers ls --kind input                        list pending inputs
  flunq timers cancel --execution order-7 --key paid  cancel one
  flunq start shop.order --id order-8 --after P1D     start an execution later

In a workflow
  An emit task sends an input if its event has the attributes below. In
  workflows/heartbeat.yaml each heartbeat postpones the alarm:

    - arm:
        emit:
          event:
            with:
              type: com.example.device.silent
              flunqafter: PT1M
              flunqkey: alarm

  flunqafter, flunqat, flunqkey and flunqonreject are as above. flunqexecution
  names another execution of the tenant; the default is the one that emits.
  flunqcancel: KEY cancels the input with that key. Events in mocks may also
  have these attributes, except flunqexecution: they are for the execution of
  the run.

In a program
  An event io.flunq.timer.scheduled in the tenant's stream with the data
    {"kind": "input", "execution_id": "order-7", "key": "paid",
     "fire_at": "2026-01-31T08:00:00Z",
     "input": {"type": "com.shop.unpaid", "data": {}}}
  sets an input, and io.flunq.timer.cancelled with kind, execution_id and key
  cancels it. All services must run a version that supports inputs.

Outcomes
  accepted           a task took it; the history has event.received
  rejected           no task listened for it, see --on-reject
  parked             no task has listened yet; it is delivered when one does
  already_completed  the execution has ended. Its pending inputs are cancelled
                     when it ends.
  An input for an unknown execution becomes a dead letter. The metric
  timer_inputs_total counts the outcomes; with RECORD_INPUT_OBSERVATIONS=true
  the workers record them for 'flunq inputs ls'. An input is never early, and
  an execution takes it once, even if it is delivered twice.`,
		GroupID: cli.GroupOperate,
	}, ls)
}

// inputRow is a recorded input in a listing.
type inputRow struct {
	ID         string    `json:"id"`
	ObservedAt time.Time `json:"observed_at"`
	Outcome    string    `json:"outcome"`
	Execution  string    `json:"execution"`
	Workflow   string    `json:"workflow,omitempty"`
	Type       string    `json:"input_type"`
	Key        string    `json:"key"`
	Reason     string    `json:"reason,omitempty"`
	FireAt     time.Time `json:"fire_at"`
}

func (l *inputListing) run(ctx context.Context, r *cli.Remote, _ []string) (err error) {
	const page = 500
	var rows []inputRow
	for before, more := l.before, true; more; more = before != "" {
		var found []store.Observation
		if found, before, err = r.Store.Observations(ctx, r.Tenant, before, page); err != nil {
			return err
		}
		for _, o := range found {
			if l.execution != "" && l.execution != o.Execution || l.outcome != "" && l.outcome != string(o.Outcome) {
				continue
			}
			if l.limit > 0 && len(rows) == l.limit {
				l.sh.Hint("more with --before %s", rows[len(rows)-1].ID)
				return l.print(rows)
			}
			rows = append(rows, inputRow{
				ID: o.ID, ObservedAt: o.ObservedAt.UTC(), Outcome: string(o.Outcome), Execution: o.Execution, Workflow: o.Workflow, Type: o.Type,
				Key: o.Key, Reason: o.Reason, FireAt: o.FireAt.UTC(),
			})
		}
	}
	return l.print(rows)
}

func (l *inputListing) print(rows []inputRow) error {
	empty := "no inputs are recorded; RECORD_INPUT_OBSERVATIONS=true makes the workers of 'flunq serve' record them"
	if l.execution+l.outcome+l.before != "" {
		empty = "no such inputs are recorded"
	}
	return cli.List[inputRow]{
		Columns: []cli.Column[inputRow]{
			{Title: "OBSERVED AT", Text: func(i inputRow) string { return cli.Moment(i.ObservedAt) }},
			{Title: "OUTCOME", Text: func(i inputRow) string { return i.Outcome }},
			{Title: "EXECUTION", Text: func(i inputRow) string { return i.Execution }},
			{Title: "TYPE", Text: func(i inputRow) string { return i.Type }},
			{Title: "KEY", Text: func(i inputRow) string { return i.Key }},
			{Title: "REASON", Text: func(i inputRow) string { return i.Reason }},
			{Title: "WORKFLOW", Wide: true, Text: func(i inputRow) string { return i.Workflow }},
			{Title: "DUE AT", Wide: true, Text: func(i inputRow) string { return cli.Moment(i.FireAt) }},
			{Title: "ID", Wide: true, Text: func(i inputRow) string { return i.ID }},
		},
		ID:    func(i inputRow) string { return i.ID },
		Empty: empty,
	}.Print(l.sh, l.format, rows)
}
