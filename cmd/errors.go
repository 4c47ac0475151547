package cmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errReported stands for an error that the user has already seen.
var errReported = errors.New("already reported")

// failure is an error with its exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail attaches an exit code to err; nil stays nil.
func fail(code int, err error) error {
	if err == nil {
		return nil
	}
	return &failure{code: code, err: err}
}

// reported ends a command with an exit code and prints nothing more.
func reported(code int) error { return fail(code, errReported) }

// misusef returns an error about the command line.
func misusef(format string, args ...any) error {
	return fail(exitMisuse, fmt.Errorf(format, args...))
}

// interrupted gives an error caused by an interrupt its exit code; other errors keep theirs, even
// after an interrupt.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return fail(exitInterrupted, errors.New("interrupted"))
	}
	return err
}

// report prints an error; all errors are printed this way.
func (sh *shell) report(err error) {
	if err == nil || errors.Is(err, errReported) {
		return
	}
	fmt.Fprintf(sh.Err, "%s %s\n", paint(sh.errColor(), red, "flunq:"), printable(err.Error()))
}

// flagMisuse describes a mistake in a flag in one line.
func flagMisuse(c *cobra.Command, err error) error {
	text := err.Error()
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		text = "unknown flag -" + unknown.GetSpecifiedName()
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		text = "unknown flag --" + name + didYouMean(name, flagNames(c), "--")
	case errors.As(err, &bare):
		text = fmt.Sprintf("--%s needs a value: %s", bare.GetFlag().Name, bare.GetFlag().Usage)
	case errors.As(err, &bad) && errors.As(bad, new(*strconv.NumError)):
		text = fmt.Sprintf("--%s %q: want a whole number", bad.GetFlag().Name, bad.GetValue())
	case errors.As(err, &bad):
		text = fmt.Sprintf("--%s %q: %v", bad.GetFlag().Name, bad.GetValue(), bad.Unwrap())
	}
	return misusef("%s%s", text, seeHelp(c))
}

func flagNames(c *cobra.Command) []string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// knownCommand refuses arguments of the root command, which were meant as a command.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return misusef("unknown command %q%s%s", args[0], didYouMean(args[0], commandNames(c), ""), seeHelp(c))
}

func commandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	return names
}

// noArguments refuses all arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misusef("%s takes no arguments, got %q%s", c.Name(), args[0], seeHelp(c))
	}
	return nil
}

// oneArgument requires exactly one argument, described by what.
func oneArgument(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch len(args) {
		case 1:
			return nil
		case 0:
			return misusef("%s: no %s given%s", c.Name(), what, seeHelp(c))
		default:
			return misusef("%s: want one %s, got %d%s", c.Name(), what, len(args), seeHelp(c))
		}
	}
}

// someArguments requires at least one argument, each described by what.
func someArguments(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return misusef("%s: no %s given%s", c.Name(), what, seeHelp(c))
		}
		return nil
	}
}

// seeHelp returns the reference to the help at the end of errors about the command line.
func seeHelp(c *cobra.Command) string { return " (see '" + c.CommandPath() + " --help')" }
