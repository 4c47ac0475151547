package operate

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
)

// consent contains the flags --yes and --dry-run.
type consent struct{ yes, dry bool }

// consentFlags adds these flags.
func consentFlags(c *cobra.Command) *consent {
	var a consent
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	c.Flags().BoolVar(&a.dry, "dry-run", false, "only print what would change")
	return &a
}

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

// confirm asks the user for confirmation, unless --yes is given. Scripts must use --yes.
func (c *consent) confirm(ctx context.Context, sh *cli.Shell, format *cli.Choice, what string) error {
	if c.yes {
		return nil
	}
	in, ok := sh.In.(*os.File)
	if !ok || !sh.ErrTerminal || !term.IsTerminal(int(in.Fd())) || format.String() != format.Words[0] {
		return cli.Misusef("%s needs --yes if there is no terminal to ask on (--dry-run shows what it would do)", what)
	}
	fmt.Fprint(sh.Err, "continue? [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // no answer means no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
		return cli.Fail(cli.ExitFailed, fmt.Errorf("%s: nothing was done", what))
	}
}
