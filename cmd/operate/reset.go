package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// resetCommand is one run of the command reset.
type resetCommand struct {
	batch

	to, iteration, attempt, version, id, reason string
	cancel                                      bool
}

// NewResetCommand returns the command flunq reset.
func NewResetCommand(sh *cli.Shell) *cobra.Command {
	m := &resetCommand{}
	c := &cobra.Command{
		Use:   "reset [ID…] --to TASK",
		Short: "Start a new execution from a task in the history of another",
		Long: `Starts a new execution with the document, the input and the history of another one, up to
the point where TASK began, and continues from there. TASK is a name, a reference
(/do/1/charge) or a task id as 'flunq logs -o json' prints it. If the task ran several
times, the last run is meant; --iteration and --attempt choose another one.

Results of earlier calls, events and children are kept: nothing is called again. Tasks
that only compute are computed again with the id of the new execution. The task itself
begins now; timers that were pending keep the time that was left on them. Calls of other
branches that had no result at that point are made again, with new idempotency keys.

The task's own child execution is started anew. If another task was waiting for a child
at that point, the reset is refused, since the child would run twice. The new execution
has no parent: the parent of a child keeps waiting for the old one.

--version continues with another version of the workflow, in which the history before the
task must be the same. This lets executions that failed because of a mistake in the
document continue with a corrected one.

The other execution does not change, unless --cancel cancels it in the same step. The new
history begins with its origin and the operator's name; --cancel also records both in the
old history. Labels are kept.

` + batchHelp + `

Without --status, only faulted executions are selected. An execution that never began TASK
counts as one that cannot be changed. Unless one ID is named, the id of each new
execution is derived from the old id, the task and the document, so repeating the command
resets no execution twice.`,
		Example: `  flunq reset order-7 --to charge --dry-run
  flunq reset order-7 --to charge --id order-7b --cancel --yes
  flunq reset order-7 --to /do/2/items/for/do/0/ship --iteration 3
  flunq reset -w shop.order:1.0.0 --since 1h --to charge --version 1.0.1 --yes`,
		GroupID: cli.GroupOperate,
	}
	m.batch = newBatch(c, sh, actions.Statuses()[1:]) // a pending execution has not begun
	f := c.Flags()
	f.StringVar(&m.to, "to", "", "continue with `TASK`")
	cli.CompleteFlag(c, "to", func(c *cobra.Command, ids []string, word string) ([]string, cobra.ShellCompDirective) {
		return cli.Complete(m.target, func(ctx context.Context, r *cli.Remote) ([]string, error) {
			if len(ids) != 1 {
				return nil, nil
			}
			x, err := r.Store.Execution(ctx, r.Tenant, ids[0])
			if err != nil {
				return nil, err
			}
			document, err := cli.DocumentOf(ctx, r, x)
			return document.CompletionWords(), err
		})(c, nil, word)
	})
	f.StringVar(&m.iteration, "iteration", "", "the run in the iteration `INDEX`, counted from 0; in nested loops such as 2.0")
	f.StringVar(&m.attempt, "attempt", "", "the run of the attempt `NUMBER`, counted from 1")
	f.StringVar(&m.version, "version", "", "continue with `VERSION` of the workflow")
	f.StringVar(&m.id, "id", "", "give the new execution the unused id `ID`, if one execution is named (default: random)")
	f.BoolVar(&m.cancel, "cancel", false, "cancel the other execution, if it has not ended")
	f.StringVar(&m.target.Secrets, "secrets", "", "read the secrets from `FILE`, if the document's decisions depend on them")
	f.StringVar(&m.reason, "reason", "", "record `TEXT` in the history")
	c.PreRunE = func(_ *cobra.Command, ids []string) error { return m.check(ids) }
	c.RunE = m.target.Run(m.run)
	return c
}

// check returns an error if the flags are invalid.
func (m *resetCommand) check(ids []string) error {
	if m.to == "" {
		id := "ID"
		if len(ids) == 1 {
			id = cli.Quote(ids[0])
		}
		return cli.Misusef("reset: want --to TASK ('flunq logs %s' shows the tasks of an execution)", id)
	}
	if m.id != "" && len(ids) != 1 {
		return cli.Misusef("--id gives one new execution its id: name one execution to reset")
	}
	if m.id != "" {
		if err := store.CheckExecution(m.id); err != nil {
			return cli.Misusef("--id: %w", err)
		}
	}
	if len(ids) == 0 && len(m.selection.statuses) == 0 && !m.selection.stuck {
		m.selection.statuses = []string{string(decide.Faulted)}
	}
	return m.selection.check()
}

// resetRow is the result for one of several executions, in the JSON output.
type resetRow struct {
	actions.ResetResult

	Before string `json:"before"`           // the status before
	Reason string `json:"reason,omitempty"` // why it was not reset
}

// run resets all named executions, or none if one of them has not begun the task; or all selected
// ones that have.
func (m *resetCommand) run(ctx context.Context, r *cli.Remote, ids []string) error {
	found, err := m.find(ctx, r, ids, func(x store.Execution) error {
		if x.Version == 0 || x.Definition == "" {
			return fmt.Errorf("execution %s has not begun: there is nothing to reset", x.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := checkLimits(ctx, m.sh, r); err != nil {
		return err
	}
	if m.version != "" {
		if err := checkVersion(ctx, r, found, m.version); err != nil {
			return err
		}
	}
	rows, err := m.plan(ctx, r, found, len(ids) > 0)
	if err != nil {
		return err
	}
	if err := m.confirmReset(ctx, rows, len(ids) == 0); err != nil {
		return err
	}
	by := actions.Resetter{
		Store: r.Store, Version: m.version, By: m.by(), Reason: m.reason, Cancel: m.cancel, Dry: m.Dry,
		Definitions: r.Definitions,
	}
	if len(ids) == 1 {
		return m.one(ctx, r, by, found[0], rows[0].Task)
	}
	return m.several(ctx, r, by, found, rows)
}

// plan finds the run of the task in each execution. If one has none, plan returns an error if all
// is set; otherwise that row has the reason.
func (m *resetCommand) plan(ctx context.Context, r *cli.Remote, found []store.Execution, all bool) ([]resetRow, error) {
	rows := make([]resetRow, len(found))
	var wrong []error
	for i, x := range found {
		task, err := m.task(ctx, r, x)
		if store.Temporary(err) {
			return nil, err
		}
		rows[i] = resetRow{ResetResult: actions.ResetResult{From: x.ID, Task: task}, Before: x.Status}
		if err != nil {
			rows[i].Reason = err.Error()
			wrong = append(wrong, err)
		}
	}
	if all {
		return rows, errors.Join(wrong...)
	}
	return rows, nil
}

// confirmReset asks for confirmation if executions are cancelled, or selected by flags.
func (m *resetCommand) confirmReset(ctx context.Context, rows []resetRow, selected bool) error {
	cancels := func(row resetRow) bool { return m.cancel && !examine.Ended(row.Before) }
	rows = slices.DeleteFunc(slices.Clone(rows), func(row resetRow) bool { return row.Reason != "" || !selected && !cancels(row) })
	if m.Dry || len(rows) == 0 {
		return nil
	}
	verb := "reset"
	if !selected {
		verb = "reset --cancel"
	}
	return m.confirmAll(ctx, verb, len(rows), func(i int) (id, status string) {
		what := rows[i].From + " to " + history.Task(rows[i].Task)
		if cancels(rows[i]) {
			what += ", and cancel it"
		}
		return what, rows[i].Before
	})
}

// one resets one named execution.
func (m *resetCommand) one(ctx context.Context, r *cli.Remote, by actions.Resetter, x store.Execution, task string) error {
	id := cmp.Or(m.id, strings.ToLower(rand.Text()))
	out, err := by.Reset(ctx, x, task, id)
	if err != nil {
		return cli.Repeatable(id, err)
	}
	if !out.Done && m.id == "" {
		out.ID = ""
	} else if out.Done {
		m.hint(ctx, r)
	}
	return m.print(out)
}

// hint reports services that the new executions need and no process runs.
func (m *resetCommand) hint(ctx context.Context, r *cli.Remote) {
	cli.HintUnserved(ctx, m.sh, r, "worker", "executor", "timer")
}

// several resets several executions. It continues after one that cannot be reset.
func (m *resetCommand) several(ctx context.Context, r *cli.Remote, by actions.Resetter, found []store.Execution, rows []resetRow) error {
	var wrong, before []string
	var failure error
	done := 0
	for i, x := range found {
		row := &rows[i]
		if row.Reason == "" && failure == nil {
			out, err := by.Reset(ctx, x, row.Task, "")
			switch {
			case store.Temporary(err):
				failure = err
			case errors.Is(err, store.ErrExists):
				row.ID, row.Reason = out.ID, "it was already reset, as "+out.ID
				before = append(before, x.ID)
				continue
			case err != nil:
				row.Reason = err.Error()
			default:
				row.ResetResult = out
				done++
			}
		}
		if row.Reason != "" {
			wrong = append(wrong, row.Reason)
		}
	}
	if done > 0 && !m.Dry && failure == nil {
		m.hint(ctx, r)
	}
	if len(before) > 0 {
		m.sh.Hint("already reset: %s", cli.Printable(cli.ShortList(before)))
	}
	if len(rows) > 1 {
		verb := "reset"
		if m.Dry {
			verb = "would reset"
		}
		m.sh.Hint("%s %s of %s", verb, history.Number(done), history.Count(len(rows), "execution"))
	}
	return errors.Join(cli.List[resetRow]{
		ID: func(row resetRow) string { return row.ID },
		Line: func(row resetRow) string {
			switch {
			case row.Done:
				return fmt.Sprintf("%s is reset to %s as %s", row.From, history.Task(row.Task), row.ID)
			case m.Dry && row.ID != "" && row.Reason == "":
				return fmt.Sprintf("would reset %s, which is %s, to %s", row.From, row.Before, history.Task(row.Task))
			default:
				return ""
			}
		},
	}.Print(m.sh, m.format, rows), failure, someErrors(wrong))
}

// task returns the run with which the new execution continues.
func (m *resetCommand) task(ctx context.Context, r *cli.Remote, x store.Execution) (string, error) {
	runs := history.NewExecution()
	if err := eachEntry(ctx, r, x, func(e history.Entry) { runs.Add(e) }); err != nil {
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
	case len(refs) == 0:
		return "", cli.Misusef("--to %s: no such task has begun in execution %s%s; begun: %s", cli.Printable(m.to), x.ID, cli.DidYouMean(m.to, names, ""), cli.Printable(cli.ShortList(names)))
	case len(refs) > 1:
		return "", cli.Misusef("--to %s is ambiguous: want %s", cli.Printable(m.to), cli.Printable(cli.OneOf(refs)))
	}
	var turns []string
	found = slices.DeleteFunc(found, func(run *history.TaskRun) bool {
		turns = append(turns, cmp.Or(strings.TrimPrefix(history.Run("", run.Iteration, run.Attempt), " "), "attempt 1"))
		return m.iteration != "" && history.Index(run.Iteration) != m.iteration || m.attempt != "" && cmp.Or(history.Attempts(run.Attempt), "1") != m.attempt
	})
	if len(found) == 0 {
		return "", cli.Misusef("task %s of execution %s has no such run; runs: %s", refs[0], x.ID, cli.Printable(strings.Join(turns, ", ")))
	}
	return slices.MaxFunc(found, func(a, b *history.TaskRun) int { return cmp.Compare(a.Requested, b.Requested) }).String(), nil
}

func (m *resetCommand) print(out actions.ResetResult) error {
	return cli.Show(m.sh, m.format, out, func() {
		if m.format.String() == "text" {
			m.explain(out)
		}
		if out.ID != "" {
			fmt.Fprintln(m.sh.Out, out.ID)
		}
	})
}

// explain prints to stderr what the new execution begins with.
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
