package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// command holds what every command that reads an engine needs.
type command struct {
	sh     *cli.Shell
	target *cli.Target
	format *cli.Choice
}

// newCommand adds the flags that select the engine, and -o with some formats, by default those of a list.
func newCommand(c *cobra.Command, sh *cli.Shell, formats ...string) command {
	return command{sh, cli.TargetFlags(c, sh), cli.OutputFlag(c, formats...)}
}

// change holds what every command that changes an engine needs.
type change struct {
	command
	*cli.Consent
	*operator // nil if nothing records who made the change
}

// newChange is like newCommand, and adds --as, --yes and --dry-run.
func newChange(c *cobra.Command, sh *cli.Shell, formats ...string) change {
	return change{newCommand(c, sh, formats...), cli.ConsentFlags(c), operatorFlag(c, sh)}
}

// confirm prints what the command is about to do and asks for confirmation, unless --yes is given.
func (ch *change) confirm(ctx context.Context, verb string, lines ...string) error {
	if ch.Yes {
		return nil
	}
	for _, line := range lines {
		ch.sh.Hint("%s", cli.Printable(line))
	}
	return ch.Confirm(ctx, ch.sh, ch.format, verb)
}

// operator is who makes a change.
type operator struct {
	as    string
	shell *cli.Shell
}

// operatorFlag adds the flag --as.
func operatorFlag(c *cobra.Command, sh *cli.Shell) *operator {
	o := &operator{shell: sh}
	c.Flags().StringVar(&o.as, "as", "", "record `NAME` as the operator (FLUNQ_USER; otherwise user@host)")
	return o
}

// by returns the name to record in the history.
func (o *operator) by() string {
	return cmp.Or(o.as, o.shell.Env("FLUNQ_USER"), actions.UserAtHost())
}

// trail records what the operator is about to do, where no history does.
func (o *operator) trail(ctx context.Context, r *cli.Remote, tenant, action, subject string) error {
	return r.Store.Audit(ctx, tenant, store.AuditEntry{Action: action, Subject: subject, By: o.by()})
}

// batch is shared by the commands that change executions, either by id or selected by flags.
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
// returns one for so that the caller changes none.
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

// confirmAll lists the first of n executions that will be changed, and asks for confirmation. The list
// leaves out flags that follow the verb.
func (b *batch) confirmAll(ctx context.Context, verb string, n int, of func(int) (id, status string)) error {
	const limit = 10
	listed, _, _ := strings.Cut(verb, " ")
	var lines []string
	for i := range min(n, limit) {
		id, status := of(i)
		lines = append(lines, fmt.Sprintf("%s %s (%s)", listed, id, status))
	}
	if n > limit {
		lines = append(lines, fmt.Sprintf("%s %s more: %s in all", listed, history.Number(n-limit), history.Count(n, "execution")))
	}
	return b.confirm(ctx, verb, lines...)
}

// someErrors returns an error with the first few texts; nil if there are none.
func someErrors(texts []string) error {
	const limit = 10
	if len(texts) > limit {
		texts = append(slices.Clone(texts[:limit]), history.Number(len(texts)-limit)+" more")
	}
	var all []error
	for _, text := range texts {
		all = append(all, errors.New(text))
	}
	return errors.Join(all...)
}
