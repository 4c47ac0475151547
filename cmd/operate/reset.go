package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// resetCommand is one run of the command reset.
type resetCommand struct {
	sh      *cli.Shell
	target  *cli.Target
	format  *cli.Choice
	consent *cli.Consent
	as      *operator

	to, iteration, attempt, version, id, secrets, reason string
	cancel                                               bool
}

// NewResetCommand returns the command flunq reset.
func NewResetCommand(sh *cli.Shell) *cobra.Command {
	m := &resetCommand{sh: sh}
	c := &cobra.Command{
		Use:   "reset ID --to TASK",
		Short: "Start a new execution from a task in the history of another",
		Long: `Starts a new execution with the document, the input and the history of another one, up to
the point at which TASK began, and continues from there. TASK is a name, a reference
(/do/1/charge) or a task id as 'flunq logs -o json' prints it. If the task ran several
times, the last run is meant; --iteration and --attempt choose another one.

Results of earlier calls, events and children are kept: nothing is called again. Tasks
that only compute are computed again with the id of the new execution. The task itself
begins now; timers that were pending keep the time that was left on them. Calls of other
branches that had no result at that point are made again, with new idempotency keys.

The task's own child execution is started anew. If another task was waiting for a child
at that point, the reset is refused, since the child would run twice. The new execution
has no parent: the parent of a child goes on waiting for the old one.

--version continues with another version of the workflow, in which the history before the
task must be the same. Executions that failed because of a mistake in the document can so
go on with a corrected one.

The other execution stays as it is, unless --cancel cancels it in the same step. The new
history begins with what it was made from, and with the operator's name; --cancel records
both in the old history, too. Labels are kept.`,
		Example: `  flunq reset order-7 --to charge --dry-run
  flunq reset order-7 --to charge --id order-7b --cancel --yes
  flunq reset order-7 --to charge --version 1.0.1
  flunq reset order-7 --to /do/2/items/for/do/0/ship --iteration 3`,
		GroupID: cli.GroupOperate,
		Args:    cli.OneArgument("execution"),
	}
	m.target = cli.TargetFlags(c, sh)
	m.format = cli.OutputFlag(c, "text", "json", "yaml", "ids")
	f := c.Flags()
	f.StringVar(&m.to, "to", "", "continue with `TASK`")
	f.StringVar(&m.iteration, "iteration", "", "the run in the iteration `INDEX`, counted from 0; in nested loops such as 2.0")
	f.StringVar(&m.attempt, "attempt", "", "the run of the attempt `NUMBER`, counted from 1")
	f.StringVar(&m.version, "version", "", "continue with `VERSION` of the workflow")
	f.StringVar(&m.id, "id", "", "give the new execution the id `ID` (default: random); it must be unused")
	f.BoolVar(&m.cancel, "cancel", false, "cancel the other execution, if it has not ended")
	f.StringVar(&m.secrets, "secrets", "", "read the secrets from `FILE`, if the document's decisions depend on them")
	f.StringVar(&m.reason, "reason", "", "record `TEXT` in the history")
	m.as = operatorFlag(c)
	m.consent = cli.ConsentFlags(c)
	c.ValidArgsFunction = cli.CompleteExecutions(m.target)
	c.RunE = func(c *cobra.Command, args []string) error { return m.run(c.Context(), args[0]) }
	return c
}

func (m *resetCommand) run(ctx context.Context, id string) error {
	if m.to == "" {
		return cli.Misusef("reset: want --to TASK ('flunq logs %s' shows its tasks)", cli.Quote(id))
	}
	chosen := m.id != ""
	m.id = cmp.Or(m.id, strings.ToLower(rand.Text()))
	if err := store.CheckExecution(m.id); err != nil {
		return cli.Misusef("--id: %w", err)
	}
	r, secrets, err := connectWithSecrets(ctx, m.sh, m.target, m.secrets)
	if err != nil {
		return err
	}
	defer r.Close()
	x, err := cli.FindExecution(ctx, r, id)
	if err != nil {
		return err
	}
	if x.Version == 0 || x.Definition == "" {
		return fmt.Errorf("execution %s has not begun: there is nothing to reset", x.ID)
	}
	if err := checkLimits(ctx, m.sh, r); err != nil {
		return err
	}
	if m.version != "" {
		if _, err := findWorkflow(ctx, r, x.Workflow+":"+m.version); err != nil {
			return err
		}
	}
	task, err := m.task(ctx, r, x)
	if err != nil {
		return err
	}
	cancels := m.cancel && !examine.Ended(x.Status)
	if cancels && !m.consent.Dry {
		if !m.consent.Yes {
			m.sh.Hint("reset %s to %s, and cancel it (%s)", cli.Printable(x.ID), cli.Printable(history.Task(task)), x.Status)
		}
		if err := m.consent.Confirm(ctx, m.sh, m.format, "cancel"); err != nil {
			return err
		}
	}
	by := actions.Resetter{
		Store: r.Store, Version: m.version, By: m.as.name(m.sh), Reason: m.reason, Cancel: m.cancel, Dry: m.consent.Dry,
		Definitions: definitions.New(r.Store, decide.Options{Secrets: secrets, Version: cli.Version().Version, Limits: decide.DefaultLimits()}),
	}
	out, err := by.Reset(ctx, x, task, m.id)
	if err != nil {
		return err
	}
	if !out.Done && !chosen {
		out.ID = ""
	} else if out.Done {
		if err := cli.HintUnserved(ctx, m.sh, r, "worker", "executor", "timer"); err != nil {
			return err
		}
	}
	return m.print(out)
}

// task returns the run with which the new execution continues.
func (m *resetCommand) task(ctx context.Context, r *cli.Remote, x store.Execution) (string, error) {
	runs := history.NewExecution()
	if err := examine.EachPage(ctx, r.Store, x, 0, func(events []event.Event) error {
		for _, e := range events {
			runs.Add(history.Read(runs.Version+1, e))
		}
		return nil
	}); err != nil {
		return "", err
	}
	var found []*history.TaskRun
	var refs, names []string
	for _, run := range runs.Runs[1:] {
		if run.Requested == 0 {
			continue // it was skipped
		}
		names = append(names, run.Name)
		if run.Name == m.to || run.Ref == m.to || run.String() == m.to {
			if !slices.Contains(refs, run.Ref) {
				refs = append(refs, run.Ref)
			}
			found = append(found, run)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(refs) == 0 && strings.HasPrefix(m.to, "/"):
		return "", cli.Misusef("--to %s: no such task has begun in execution %s; begun: %s", cli.Printable(m.to), x.ID, cli.Printable(cli.ShortList(names)))
	case len(refs) == 0:
		return "", cli.Misusef("--to %s: no such task has begun in execution %s%s; begun: %s", cli.Printable(m.to), x.ID, cli.DidYouMean(m.to, names, ""), cli.Printable(cli.ShortList(names)))
	case len(refs) > 1:
		return "", cli.Misusef("--to %s is ambiguous: want %s", cli.Printable(m.to), cli.Printable(cli.OneOf(refs)))
	}
	var turns []string
	found = slices.DeleteFunc(found, func(run *history.TaskRun) bool {
		turns = append(turns, strings.TrimPrefix(history.Run("", run.Iteration, run.Attempt), " "))
		return m.iteration != "" && history.Index(run.Iteration) != m.iteration || m.attempt != "" && cmp.Or(history.Attempts(run.Attempt), "1") != m.attempt
	})
	if len(found) == 0 {
		return "", cli.Misusef("task %s of execution %s has no such run; runs: %s", refs[0], x.ID, cli.Printable(strings.Join(turns, ", ")))
	}
	return slices.MaxFunc(found, func(a, b *history.TaskRun) int { return cmp.Compare(a.Requested, b.Requested) }).String(), nil
}

func (m *resetCommand) print(out actions.ResetResult) error {
	switch format := m.format.String(); format {
	case "json", "yaml":
		return cli.WriteValue(m.sh.Out, format, out)
	case "text":
		m.explain(out)
	}
	if out.ID != "" {
		fmt.Fprintln(m.sh.Out, out.ID)
	}
	return nil
}

// explain says on stderr what the new execution begins with.
func (m *resetCommand) explain(out actions.ResetResult) {
	verb := "continues"
	if !out.Done {
		verb = "would continue"
	}
	m.sh.Hint("it %s with %s; %s kept", verb, cli.Printable(history.Task(out.Task)), history.Count(out.Kept, "result"))
	for _, task := range out.Requests {
		if task != out.Task {
			m.sh.Hint("request again: %s", cli.Printable(history.Task(task)))
		}
	}
	for _, child := range out.Children {
		m.sh.Hint("start child: %s", child)
	}
	for _, t := range out.Timers {
		m.sh.Hint("%s timer of %s: due at %s", t.Kind, cli.Printable(cmp.Or(history.Task(t.Task), "the workflow")), cli.Moment(t.Due))
	}
	if out.Cancelled {
		m.sh.Hint("cancel: %s", cli.Printable(out.From))
	}
}
