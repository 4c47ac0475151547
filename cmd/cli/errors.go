package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim"
)

// errReported represents an error that the user has already seen.
var errReported = errors.New("already reported")

// failure is an error with its exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Fail attaches an exit code to err; nil stays nil.
func Fail(code int, err error) error {
	if err == nil {
		return nil
	}
	return &failure{code: code, err: err}
}

// Reported returns an error that ends a command with an exit code and prints nothing.
func Reported(code int) error { return Fail(code, errReported) }

// Misusef returns an error about the command line.
func Misusef(format string, args ...any) error {
	return Fail(ExitMisuse, fmt.Errorf(format, args...))
}

// Interrupted attaches the exit code for interrupts to an error that an interrupt has caused.
// Other errors keep their exit codes.
func Interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return Fail(ExitInterrupted, errors.New("interrupted"))
	}
	return err
}

// Report prints an error, unless the user has already seen it. All errors are printed here.
func (sh *Shell) Report(err error) {
	if err == nil || errors.Is(err, errReported) {
		return
	}
	fmt.Fprintf(sh.Err, "%s %s\n", Paint(sh.ErrColor(), Red, "flunq:"), Printable(err.Error()))
}

// FlagMisuse describes a mistake in a flag on one line.
func FlagMisuse(c *cobra.Command, err error) error {
	text := err.Error()
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch args := c.Flags().Args(); {
	case errors.As(err, &unknown) && c.HasSubCommands() && len(args) > 0:
		return KnownCommand(c, args) // the flag may be one of the command that was meant
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		text = "unknown flag -" + unknown.GetSpecifiedName()
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		text = "unknown flag --" + name + DidYouMean(name, flagNames(c), "--")
	case errors.As(err, &bare):
		_, usage := pflag.UnquoteUsage(bare.GetFlag())
		text = fmt.Sprintf("--%s needs a value: %s", bare.GetFlag().Name, usage)
	case errors.As(err, &bad) && bad.GetFlag().Value.Type() == "duration":
		text = fmt.Sprintf("--%s %q: want a duration such as 30s or 1m30s", bad.GetFlag().Name, bad.GetValue())
	case errors.As(err, &bad) && bad.GetFlag().Value.Type() == "bool":
		text = fmt.Sprintf("--%s %q: want true or false", bad.GetFlag().Name, bad.GetValue())
	case errors.As(err, &bad) && bad.GetFlag().Value.Type() == "uint64":
		text = fmt.Sprintf("--%s %q: want an integer from 0 to %d", bad.GetFlag().Name, bad.GetValue(), uint64(math.MaxUint64))
	case errors.As(err, &bad) && errors.As(bad, new(*strconv.NumError)):
		text = fmt.Sprintf("--%s %q: want an integer", bad.GetFlag().Name, bad.GetValue())
	case errors.As(err, &bad):
		text = fmt.Sprintf("--%s %q: %v", bad.GetFlag().Name, bad.GetValue(), bad.Unwrap())
	}
	return Misusef("%s%s", text, SeeHelp(c))
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

// Group returns a command that only has subcommands: alone, it shows its help.
func Group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.Args = KnownCommand
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(subs...)
	return c
}

// KnownCommand rejects the arguments of a command that only has subcommands, as an unknown
// subcommand.
func KnownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := DidYouMean(args[0], CommandNames(c), "")
	if paths := called(c, args[0]); len(paths) > 0 {
		meant = "; did you mean " + strings.Join(paths, " or ") + "?"
	}
	return Misusef("unknown command %q%s%s", args[0], meant, SeeHelp(c))
}

// called returns the paths of the visible commands below c that a word names: by their name, an alias, or
// what other programs call them.
func called(c *cobra.Command, word string) (paths []string) {
	for _, sub := range c.Commands() {
		if sub.Hidden {
			continue
		}
		if sub.Name() == word || sub.HasAlias(word) || slices.Contains(sub.SuggestFor, word) {
			paths = append(paths, sub.Name())
		}
		for _, path := range called(sub, word) {
			paths = append(paths, sub.Name()+" "+path)
		}
	}
	return paths
}

// CommandNames returns the names and aliases of the visible subcommands.
func CommandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	return names
}

// NoArguments refuses all arguments.
func NoArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Misusef("%s takes no arguments, got %q%s", c.Name(), args[0], SeeHelp(c))
	}
	return nil
}

// AtMostOne allows one argument, described by what.
func AtMostOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return Misusef("%s: want one %s, got %d%s", c.Name(), what, len(args), SeeHelp(c))
		}
		return nil
	}
}

// OneArgument requires exactly one argument, described by what.
func OneArgument(what string) cobra.PositionalArgs {
	return cobra.MatchAll(SomeArguments(what), AtMostOne(what))
}

// SomeArguments requires at least one argument, each described by what.
func SomeArguments(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Misusef("%s: no %s given%s", c.Name(), what, SeeHelp(c))
		}
		return nil
	}
}

// SeeHelp returns the reference to the help that ends errors about the command line.
func SeeHelp(c *cobra.Command) string { return " (see '" + c.CommandPath() + " --help')" }

// The exit codes are a contract with scripts; see "flunq help exit-codes".
const (
	exitDone        = 0
	ExitFailed      = 1
	ExitMisuse      = 2
	ExitFaulted     = 3
	ExitUnexpected  = 4
	ExitInvalid     = 5
	ExitUnreachable = 6
	ExitLimit       = 7
	ExitInterrupted = 130
)

// ExitCode maps an error to an exit code; nothing else does. A code attached by Fail takes
// precedence over that of the wrapped error.
func ExitCode(err error) int {
	var (
		marked  *failure
		invalid *yaml.Mistakes
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &marked):
		return marked.code
	case errors.As(err, &invalid):
		return ExitInvalid
	case errors.Is(err, store.ErrUnreachable):
		return ExitUnreachable
	case store.Full(err), errors.Is(err, sim.ErrClockEnds):
		return ExitLimit
	default:
		return ExitFailed
	}
}
