package operate

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
)

// operator is the name that is recorded for a change.
type operator struct{ as string }

// operatorFlag adds the flag --as.
func operatorFlag(c *cobra.Command) *operator {
	var o operator
	c.Flags().StringVar(&o.as, "as", "", "record `NAME` as the operator (FLUNQ_USER; otherwise user@host)")
	return &o
}

// trail records what the operator is about to do, where no history does.
func (o *operator) trail(ctx context.Context, sh *cli.Shell, r *cli.Remote, tenant, action, subject string) error {
	return r.Store.Audit(ctx, tenant, store.AuditEntry{Action: action, Subject: subject, By: o.name(sh)})
}

// name returns the name to record in the history.
func (o *operator) name(sh *cli.Shell) string {
	return cmp.Or(o.as, sh.Env("FLUNQ_USER"), actions.UserAtHost())
}

// connectWithSecrets connects with the secrets in a file, which documents may need for their
// decisions. Without a file there are none.
func connectWithSecrets(ctx context.Context, sh *cli.Shell, target *cli.Target, file string) (r *cli.Remote, secrets map[string]any, err error) {
	if secrets, err = cli.ReadSecrets(ctx, sh, file); err != nil {
		return nil, nil, err
	}
	if r, err = target.Connect(ctx); err != nil {
		return nil, nil, err
	}
	r.Store = store.New(r.Redis, store.Options{Secrets: secrets})
	return r, secrets, nil
}
