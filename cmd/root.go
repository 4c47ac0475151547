// Package cmd is the command line: it parses flags, prints results, and maps errors to exit codes
// in one place. Other packages do the work.
package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The groups in which the overview lists the commands.
const (
	groupDevelop = "develop"
	groupOperate = "operate"
	groupAbout   = "about"
)

// Main runs flunq with the process' arguments and streams, and returns the exit code. The first
// interrupt asks the command to stop, the second one kills the process.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Execute(ctx, os.Args[1:], processStreams())
}

// Execute runs one command line on the given streams and returns the exit code.
func Execute(ctx context.Context, args []string, streams Streams) int {
	out := &stickyWriter{w: streams.Out}
	streams.Out = out
	sh := &shell{Streams: streams}
	root := newRoot(sh)
	// For a nil list, Cobra would take the process' own arguments.
	root.SetArgs(append([]string{}, args...))
	err := root.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the output: %w", out.err)
	}
	if err != nil && ctx.Err() != nil {
		err = interrupted(err)
	}
	sh.report(err)
	return exitCode(err)
}

func newRoot(sh *shell) *cobra.Command {
	root := &cobra.Command{
		Use:               "flunq",
		Short:             "Durable workflows: write, simulate and run them",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              knownCommand,
	}
	root.SetIn(sh.In)
	root.SetOut(sh.Out)
	root.SetErr(sh.Err)
	root.SetFlagErrorFunc(flagMisuse)
	addRootFlags(root, sh)
	root.AddGroup(
		&cobra.Group{ID: groupDevelop, Title: "Write and try workflows"},
		&cobra.Group{ID: groupOperate, Title: "Run and watch them"},
		&cobra.Group{ID: groupAbout, Title: "About flunq"},
	)
	// In the order of the overview.
	commands := []*cobra.Command{
		newRunCommand(sh),
		newValidateCommand(sh),
		newTestCommand(sh),
		newReplayCommand(sh),
		newSimCommand(sh),
		newGraphCommand(sh),
		newStartCommand(sh),
		newListCommand(sh),
		newShowCommand(sh),
		newHistoryCommand(sh),
		newCancelCommand(sh),
		newSuspendCommand(sh),
		newResumeCommand(sh),
		newRetryCommand(sh),
		newMigrateCommand(sh),
		newEmitCommand(sh),
		newWorkflowsCommand(sh),
		newTimersCommand(sh),
		newDeadLettersCommand(sh),
		newDoctorCommand(sh),
		newTopCommand(sh),
		newDevCommand(sh),
		newClockCommand(sh),
		newServeCommand(sh),
		newBenchCommand(sh),
		newConfigCommand(sh),
		newCompletionCommand(sh),
		newVersionCommand(sh),
	}
	root.AddCommand(commands...)
	root.AddCommand(helpTopics()...)
	root.SetHelpCommand(newHelpCommand())
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { writeHelp(sh, c, commands) })
	return root
}

func addRootFlags(root *cobra.Command, sh *shell) {
	sh.color = newChoice("auto", "always", "never")
	flags := root.PersistentFlags()
	flags.Var(sh.color, "color", "colours: auto, always or never (NO_COLOR is honoured)")
	flags.BoolVarP(&sh.quiet, "quiet", "q", false, "print results and errors only")
	offer(root, "color", sh.color)

	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *version {
			return writeVersion(sh, "text")
		}
		return c.Help()
	}
}
