package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

// ReadSecret reads a value from standard input, up to the end of its first line. A terminal
// does not show what is typed.
func ReadSecret(sh *Shell, name string) (string, error) {
	if in, ok := sh.In.(*os.File); ok && sh.InTerminal {
		fmt.Fprintf(sh.Err, "%s: ", name)
		defer fmt.Fprintln(sh.Err)
		value, err := term.ReadPassword(int(in.Fd()))
		return string(value), Fail(ExitMisuse, err)
	}
	value, err := bufio.NewReader(sh.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", Fail(ExitMisuse, fmt.Errorf("stdin: %w", err))
	}
	return strings.TrimRight(value, "\r\n"), nil
}
