package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// inputFlags are the flags with which emit sends an event to one execution.
type inputFlags struct {
	due

	execution, onReject string
}

func (f *inputFlags) add(c *cobra.Command, t *cli.Target) {
	c.Flags().StringVar(&f.execution, "execution", "", "send it to the execution `ID` only, as an input")
	f.due.add(c, "deliver the input", "replace the execution's input that has the key `KEY` (default: the event's id)")
	c.Flags().StringVar(&f.onReject, "on-reject", "", "if no task listens for the input: `WHAT` is drop, park=DURATION or dead-letter (default drop)")
	cli.CompleteFlag(c, "execution", cli.CompleteExecutions(t))
}

// check returns an error if the flags are invalid.
func (f *inputFlags) check() error {
	if f.execution == "" {
		if f.after+f.at+f.key+f.onReject != "" {
			return cli.Misusef("emit: --after, --at, --key and --on-reject require --execution: only an input, for one execution, can wait")
		}
		return nil
	}
	if err := store.CheckIDs("default", f.execution); err != nil {
		return cli.Misusef("--execution: %w", err)
	}
	rejection, err := event.ParseRejection(f.onReject)
	if err == nil && rejection.Park != "" {
		_, err = dsl.ParseDuration(rejection.Park)
	}
	if err != nil {
		return cli.Misusef("--on-reject: %w", err)
	}
	return f.due.check()
}

// due holds the flags that set when a timer of an execution fires, and its key.
type due struct{ after, at, key string }

func (d *due) add(c *cobra.Command, verb, key string) {
	c.Flags().StringVar(&d.after, "after", "", verb+" after `DURATION`: 10m, 3d, PT10M")
	c.Flags().StringVar(&d.at, "at", "", verb+" at `TIME` (RFC 3339)")
	c.Flags().StringVar(&d.key, "key", "", key)
}

func (d *due) check() error {
	if d.after != "" && d.at != "" {
		return cli.Misusef("--after and --at exclude each other")
	}
	if d.key != "" {
		if err := event.CheckInputKey(d.key); err != nil {
			return cli.Misusef("--key %q: %w", d.key, err)
		}
	}
	_, err := d.moment(time.Time{})
	return err
}

// moment returns the time that the flags give, by default now.
func (d *due) moment(now time.Time) (time.Time, error) {
	switch {
	case d.after != "":
		return delayFlag("after", d.after, now)
	case d.at != "":
		return timeFlag("at", d.at)
	default:
		return now, nil
	}
}

// timeFlag parses a flag that is a time.
func timeFlag(flag, given string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, given)
	if err != nil {
		return at, cli.Misusef("--%s %q: want a time such as 2026-01-01T00:00:00Z", flag, given)
	}
	return at.UTC(), nil
}

// delayFlag parses a flag that is a duration from now.
func delayFlag(flag, given string, now time.Time) (time.Time, error) {
	d, err := dsl.ParseSpan(given)
	if err != nil {
		return now, cli.Misusef("--%s %q: %v", flag, given, err)
	}
	return d.From(now), nil
}

// setRow is an input that was set, in the JSON output.
type setRow struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Source    string    `json:"source"`
	Tenant    string    `json:"tenant"`
	Execution string    `json:"execution"`
	Key       string    `json:"key"`
	Due       time.Time `json:"due"`
	Timer     string    `json:"timer"`
	Moved     bool      `json:"moved"` // an earlier input with this key was pending
}

// setInput sets the timer that delivers the event to one execution.
func (e *emission) setInput(ctx context.Context, r *cli.Remote, in event.Event) error {
	at, err := e.input.moment(in.Time)
	if err != nil {
		return err
	}
	x, err := r.Store.Execution(ctx, r.Tenant, e.input.execution)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	t := event.Timer{
		Tenant: r.Tenant, Workflow: x.Workflow, Execution: e.input.execution, FireAt: at, DurationMS: max(at.Sub(in.Time).Milliseconds(), 0),
		Kind: event.InputTimer, Key: cmp.Or(e.input.key, in.ID), Input: event.EncodeInput(in), OnReject: e.input.onReject,
	}
	moved, err := timers.New(r.Store).SetInput(ctx, t, in.Time)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w; 'flunq ps' lists executions", err)
	case err != nil:
		return err
	}
	cli.HintUnserved(ctx, e.sh, r, "worker", "timer")
	row := setRow{
		ID: in.ID, Type: string(in.Type), Source: in.Source, Tenant: r.Tenant, Execution: t.Execution, Key: t.Key, Due: at.UTC(), Timer: timerName(t), Moved: moved,
	}
	what := "sent"
	if moved {
		what = "moved"
	}
	text := fmt.Sprintf("%s %s: %s for %s", what, t.Key, in.Type, t.Execution)
	if left := at.Sub(in.Time); left > 0 {
		text += " in " + history.Duration(left)
	}
	return cli.PrintValue(e.sh, e.format, text, in.ID, row)
}

// outcomes returns what may become of an input.
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
			return cli.Misusef("--before %q: want the id of a record", l.before)
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
  have these attributes; without flunqexecution they go to the execution of
  the run.

In a program
  An event io.flunq.timer.scheduled in the tenant's stream with the data
    {"kind": "input", "execution_id": "order-7", "key": "paid",
     "fire_at": "2026-01-31T08:00:00Z",
     "input": {"type": "com.shop.unpaid", "data": {}}}
  sets one, and io.flunq.timer.cancelled with kind, execution_id and key cancels
  it. All services must run a version that supports inputs.

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
