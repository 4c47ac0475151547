package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/dsl"
)

// The exit codes are a contract with scripts; see "flunq help exit-codes".
const (
	exitDone        = 0
	exitFailed      = 1
	exitMisuse      = 2
	exitFaulted     = 3
	exitUnexpected  = 4
	exitInvalid     = 5
	exitUnreachable = 6
	exitLimit       = 7
	exitInterrupted = 130
)

// exitCode is the only mapping from errors to exit codes. A code attached by fail takes precedence
// over that of the wrapped error.
func exitCode(err error) int {
	var marked *failure
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &marked):
		return marked.code
	case errors.Is(err, dsl.ErrInvalid):
		return exitInvalid
	default:
		return exitFailed
	}
}

// helpTopics returns the help pages that belong to no command. Cobra treats a command that cannot
// run as a help topic.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `Every command ends with one of these codes:

    0   done; the workflow completed
    1   flunq itself failed
    2   misused: unknown flag, unreadable file
    3   the workflow faulted or was cancelled
    4   an expectation failed, or a replay diverged
    5   the document is invalid, or the input does not fit its schema
    6   Redis cannot be reached
    7   a limit was hit, or the workflow waits for something that never comes
  130   interrupted`,
		Example: `  # tell a broken document from a failed check
  flunq validate order.yaml || echo "exit code $?"`,
	}, limitsTopic()}
}
