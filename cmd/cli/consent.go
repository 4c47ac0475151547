package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Consent contains the flags --yes and --dry-run.
type Consent struct{ Yes, Dry bool }

// ConsentFlags adds these flags.
func ConsentFlags(c *cobra.Command) *Consent {
	var a Consent
	c.Flags().BoolVarP(&a.Yes, "yes", "y", false, "do not ask for confirmation")
	c.Flags().BoolVar(&a.Dry, "dry-run", false, "only print what would change")
	return &a
}

// Confirm asks the user for confirmation, unless --yes is given. Scripts must use --yes.
func (c *Consent) Confirm(ctx context.Context, sh *Shell, format *Choice, what string) error {
	if c.Yes {
		return nil
	}
	in, ok := sh.In.(*os.File)
	if !ok || !sh.ErrTerminal || !term.IsTerminal(int(in.Fd())) || format.String() != format.Words[0] {
		return Misusef("%s needs --yes if there is no terminal to ask on (--dry-run shows what it would do)", what)
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
		return Fail(ExitFailed, fmt.Errorf("%s: nothing was done", what))
	}
}
