package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
)

func newVersionCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:               "version",
		Short:             "Show the versions of flunq and of the DSL",
		Example:           "  flunq version -o json | jq -r .version",
		GroupID:           cli.GroupAbout,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := cli.OutputFlag(c, "text", "json")
	c.RunE = func(*cobra.Command, []string) error { return writeVersion(sh, format.String()) }
	return c
}

func writeVersion(sh *cli.Shell, format string) error {
	b := cli.Version()
	if format == "json" {
		return cli.WriteJSON(sh.Out, b)
	}
	fmt.Fprintf(sh.Out, "flunq %s", b.Version)
	if b.Revision != "" {
		fmt.Fprintf(sh.Out, " (%.12s %s)", b.Revision, b.Time)
	}
	fmt.Fprintf(sh.Out, "\n%s %s\n%s\n", b.Go, b.Platform, b.DSL)
	return nil
}
