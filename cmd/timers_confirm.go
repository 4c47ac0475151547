package cmd

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"flunq.io/flunq/cmd/operate"
)

// consent is whether a command may change things.
type consent struct {
	yes, dry bool
}

// consentFlags adds the flags that say so.
func consentFlags(c *cobra.Command) *consent {
	var a consent
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "do it without asking")
	c.Flags().BoolVar(&a.dry, "dry-run", false, "only say what would be done")
	return &a
}

// operator is in whose name a command changes things.
type operator struct{ as string }

// operatorFlag adds the flag that says so.
func operatorFlag(c *cobra.Command) *operator {
	var o operator
	c.Flags().StringVar(&o.as, "as", "", "record this `NAME` as the operator in the history (FLUNQ_USER; otherwise user@host)")
	return &o
}

// name is what the history says.
func (o *operator) name(sh *shell) string {
	return cmp.Or(o.as, sh.Env("FLUNQ_USER"), operate.UserAtHost())
}

// given asks people for their consent to what is about to happen, which has been
// told to them. Programs have to have given it before.
func (a *consent) given(ctx context.Context, sh *shell, format *choice, what string) error {
	if a.yes {
		return nil
	}
	in, ok := sh.In.(*os.File)
	if !ok || !sh.ErrTerminal || !term.IsTerminal(int(in.Fd())) || format.String() != format.words[0] {
		return misusef("%s needs --yes where nobody can be asked (or --dry-run, to see what it would do)", what)
	}
	fmt.Fprint(sh.Err, "go on? [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // nothing is a no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
		return fail(exitFailed, fmt.Errorf("%s: nothing was done", what))
	}
}
