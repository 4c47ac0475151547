package operate

import (
	"cmp"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
)

// operator is the name that is recorded for a change.
type operator struct{ as string }

// operatorFlag adds the flag --as.
func operatorFlag(c *cobra.Command) *operator {
	var o operator
	c.Flags().StringVar(&o.as, "as", "", "record `NAME` as the operator in the history (FLUNQ_USER; otherwise user@host)")
	return &o
}

// name returns the name to record in the history.
func (o *operator) name(sh *cli.Shell) string {
	return cmp.Or(o.as, sh.Env("FLUNQ_USER"), actions.UserAtHost())
}
