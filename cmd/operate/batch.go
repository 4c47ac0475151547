package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// batch is what commands share that change executions: named ones, or those that flags select.
type batch struct {
	change

	selection *selection
}

// batchHelp explains the flags of commands that act on selected executions.
const batchHelp = `Instead of naming executions, select them with the flags of 'flunq ps': --workflow,
--status, --since, --before, --where, --label, --stuck. Without --limit all are selected.
The command then asks for confirmation (scripts use --yes); --dry-run only lists them.
If a selected execution cannot be changed, the others still are; it is reported, and
the exit code is 1. If a named one cannot be changed, none is.`

// batchSize is how many executions are read or changed in one go.
const batchSize = 100

// newBatch adds the flags of a command that changes executions with one of some statuses.
func newBatch(c *cobra.Command, sh *cli.Shell, allowed []string) batch {
	b := batch{change: newChange(c, sh, "text", "json", "yaml", "ids")}
	b.selection = selectionFlags(c, b.target, 0)
	b.selection.allowed = allowed
	c.Args = b.selection.either
	c.ValidArgsFunction = cli.CompleteExecutions(b.target, allowed...)
	return b
}

// find reads the executions that are named, or else those that the flags select. If refuse returns
// errors for named ones, find returns these.
func (b *batch) find(ctx context.Context, r *cli.Remote, ids []string, refuse func(store.Execution) error) ([]store.Execution, error) {
	if len(ids) == 0 {
		return b.selection.all(ctx, b.sh, r)
	}
	return findAll(ctx, r, ids, refuse)
}

// findAll reads executions, each once. It returns an error for each that does not exist or that refuse
// returns one for, so that the caller changes none.
func findAll(ctx context.Context, r *cli.Remote, ids []string, refuse func(store.Execution) error) ([]store.Execution, error) {
	var found []store.Execution
	var wrong []error
	for _, id := range ids {
		x, err := cli.FindExecution(ctx, r, id)
		if err == nil {
			err = refuse(x)
		}
		wrong = append(wrong, err)
		if !slices.ContainsFunc(found, func(other store.Execution) bool { return other.ID == id }) {
			found = append(found, x)
		}
	}
	err := errors.Join(wrong...)
	if err != nil && len(ids) > 1 {
		err = fmt.Errorf("%w\nnone of the %d executions is changed", err, len(ids))
	}
	return found, err
}

func idsOf(executions []store.Execution) []string {
	ids := make([]string, len(executions))
	for i, x := range executions {
		ids[i] = x.ID
	}
	return ids
}

// confirmAll lists the first of n executions that will be changed, and asks for confirmation. The list
// leaves out flags that follow the verb.
func (b *batch) confirmAll(ctx context.Context, verb string, n int, of func(int) (id, status string)) error {
	const most = 10
	listed, _, _ := strings.Cut(verb, " ")
	var lines []string
	for i := range min(n, most) {
		id, status := of(i)
		lines = append(lines, fmt.Sprintf("%s %s (%s)", listed, id, status))
	}
	if n > most {
		lines = append(lines, fmt.Sprintf("%s %s more: %s in all", listed, history.Number(n-most), history.Count(n, "execution")))
	}
	return b.confirm(ctx, verb, lines...)
}

// someErrors returns an error with the first few texts; nil if there are none.
func someErrors(texts []string) error {
	const most = 10
	if len(texts) > most {
		texts = append(slices.Clone(texts[:most]), history.Number(len(texts)-most)+" more")
	}
	var all []error
	for _, text := range texts {
		all = append(all, errors.New(text))
	}
	return errors.Join(all...)
}
