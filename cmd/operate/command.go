package operate

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
)

// command is what the commands that read an engine have in common.
type command struct {
	sh     *cli.Shell
	target *cli.Target
	format *cli.Choice
}

// newCommand adds the flags that select the engine, and -o with some formats, by default those of a list.
func newCommand(c *cobra.Command, sh *cli.Shell, formats ...string) command {
	out := command{sh: sh, target: cli.TargetFlags(c, sh)}
	if len(formats) == 0 {
		out.format = cli.ListFlag(c)
	} else {
		out.format = cli.OutputFlag(c, formats...)
	}
	return out
}

// change is what the commands that change an engine have in common.
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

// runWithSecrets is like cli.Target.Run, for a command that knows the secrets in a file, which
// documents may need for their decisions. Without a file there are none.
func (c command) runWithSecrets(file *string, run func(context.Context, *cli.Remote, []string) error) func(*cobra.Command, []string) error {
	return func(cc *cobra.Command, args []string) error {
		ctx := cc.Context()
		secrets, err := cli.ReadSecrets(ctx, c.sh, *file)
		if err != nil {
			return err
		}
		r, err := c.target.ConnectWith(ctx, secrets)
		if err != nil {
			return err
		}
		defer r.Close()
		return run(ctx, r, args)
	}
}
