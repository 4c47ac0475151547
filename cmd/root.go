// Package cmd is the command line: it parses flags, prints results, and maps errors to exit codes
// in one place. Other packages do the work.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/check"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/doctor"
	"flunq.io/flunq/cmd/editor"
	"flunq.io/flunq/cmd/operate"
	"flunq.io/flunq/cmd/run"
	"flunq.io/flunq/cmd/schedule"
	"flunq.io/flunq/cmd/serve"
	_ "flunq.io/flunq/cmd/startup" // sets GOGC
)

// Main runs flunq with the process's arguments and streams, and returns the exit code. The first
// interrupt asks the command to stop; a second one kills the process, but not within a second of the
// first, since wrappers such as timeout(1) send each signal twice.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return Execute(ctx, os.Args[1:], cli.ProcessStreams())
}

// Execute runs one command line on the given streams and returns the exit code.
func Execute(ctx context.Context, args []string, streams cli.Streams) int {
	out := &cli.StickyWriter{Writer: streams.Out}
	streams.Out = out
	sh := &cli.Shell{Streams: streams}
	root := newRoot(sh)
	// Given a nil list, Cobra would use the arguments of the process.
	root.SetArgs(append([]string{}, args...))
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		prepareCompletions(root)
	}
	c, err := root.ExecuteContextC(ctx)
	if err == nil && misnamed(c) {
		err = cli.KnownCommand(c, c.Flags().Args()) // which Cobra does not ask with --help
	}
	if err != nil && ctx.Err() != nil {
		err = cli.Interrupted(err)
	}
	if out.Failure != nil && !errors.Is(err, out.Failure) {
		sh.Report(err) // unless it is a verdict, whose exit code would vouch for the output
		err = fmt.Errorf("write the output: %w", out.Failure)
	}
	sh.Report(err)
	return cli.ExitCode(err)
}

func newRoot(sh *cli.Shell) *cobra.Command {
	root := &cobra.Command{
		Use:               "flunq",
		Short:             "Durable workflows: write, simulate and run them",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cli.KnownCommand,
	}
	root.SetIn(sh.In)
	root.SetOut(sh.Out)
	root.SetErr(sh.Err)
	root.SetFlagErrorFunc(cli.FlagMisuse)
	addRootFlags(root, sh)
	root.AddGroup(
		&cobra.Group{ID: cli.GroupDevelop, Title: "Write and try workflows"},
		&cobra.Group{ID: cli.GroupOperate, Title: "Run and watch them"},
		&cobra.Group{ID: cli.GroupAbout, Title: "About flunq"},
	)
	// In the order of the overview.
	commands := []*cobra.Command{
		newInitCommand(sh),
		run.NewRunCommand(sh),
		check.NewValidateCommand(sh),
		editor.NewLintCommand(sh),
		editor.NewFormatCommand(sh),
		check.NewTestCommand(sh),
		check.NewReplayCommand(sh),
		run.NewSimCommand(sh),
		check.NewGraphCommand(sh),
		editor.NewServerCommand(sh),
		editor.NewSchemaCommand(sh),
		check.NewConformanceCommand(sh),
		operate.NewStartCommand(sh),
		operate.NewListCommand(sh),
		operate.NewShowCommand(sh),
		operate.NewHistoryCommand(sh),
		operate.NewLogsCommand(sh),
		operate.NewCancelCommand(sh),
		operate.NewSuspendCommand(sh),
		operate.NewResumeCommand(sh),
		operate.NewRetryCommand(sh),
		operate.NewMigrateCommand(sh),
		operate.NewResetCommand(sh),
		operate.NewDiffCommand(sh),
		operate.NewRemoveCommand(sh),
		operate.NewAuditCommand(sh),
		operate.NewEmitCommand(sh),
		operate.NewWorkflowsCommand(sh),
		operate.NewTenantsCommand(sh),
		operate.NewTimersCommand(sh),
		operate.NewInputsCommand(sh),
		schedule.NewScheduleCommand(sh),
		operate.NewDeadLettersCommand(sh),
		doctor.NewDoctorCommand(sh),
		operate.NewTopCommand(sh),
		serve.NewDevCommand(sh),
		serve.NewClockCommand(sh),
		serve.NewServeCommand(sh),
		serve.NewHealthCommand(sh),
		serve.NewBenchCommand(sh),
		newConfigCommand(sh),
		newCompletionCommand(sh),
		newVersionCommand(sh),
		newManCommand(sh),
	}
	root.AddCommand(commands...)
	root.AddCommand(helpTopics()...)
	root.SetHelpCommand(newHelpCommand())
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		if !misnamed(c) {
			writeHelp(sh, c, commands)
		}
	})
	return root
}

// misnamed reports whether the command line has words after a command that only has subcommands.
func misnamed(c *cobra.Command) bool { return c.HasSubCommands() && c.Flags().NArg() > 0 }

func addRootFlags(root *cobra.Command, sh *cli.Shell) {
	sh.Color = cli.NewChoice("auto", "always", "never")
	flags := root.PersistentFlags()
	flags.Var(sh.Color, "color", "colours: auto, always or never (NO_COLOR is honoured)")
	flags.BoolVarP(&sh.Quiet, "quiet", "q", false, "print results and errors only")
	cli.Offer(root, "color", sh.Color)

	version := root.Flags().Bool("version", false, "print the version")
	root.PersistentPreRunE = cli.CheckFlags
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *version {
			return writeVersion(sh, "text")
		}
		return c.Help()
	}
}
