package cmd

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/cmd/cli"
)

func newCompletionCommand(sh *cli.Shell) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands in your shell",
		Long: `Prints a script that completes flunq's commands, flags and their values in your shell.
Run one of the lines below, or add it to your shell's startup file. The script for bash
needs the package bash-completion.`,
		Example: `  source <(flunq completion bash)                   # ~/.bashrc
  source <(flunq completion zsh)                    # ~/.zshrc, after compinit
  flunq completion fish | source                    # ~/.config/fish/config.fish
  flunq completion powershell | Out-String | Invoke-Expression`,
		GroupID:           cli.GroupAbout,
		Args:              cli.OneArgument("shell"),
		ValidArgsFunction: cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(sh.Out, true)
			case "zsh":
				return c.Root().GenZshCompletion(sh.Out)
			case "fish":
				return c.Root().GenFishCompletion(sh.Out, true)
			case "powershell":
				return c.Root().GenPowerShellCompletionWithDesc(sh.Out)
			default:
				return cli.Misusef("no completion for shell %q: want %s%s", args[0], cli.OneOf(shells), cli.DidYouMean(args[0], shells, ""))
			}
		},
	}
}

// prepareCompletions offers files only for flags that take one, and removes the backquotes in
// descriptions of flags, which Cobra would print.
func prepareCompletions(c *cobra.Command) {
	prepare := func(f *pflag.Flag) {
		var value string
		value, f.Usage = pflag.UnquoteUsage(f)
		if _, ok := c.GetFlagCompletionFunc(f.Name); !ok && !slices.Contains([]string{"FILE", "FOLDER", "DIR", "INPUT", "DATA"}, value) {
			cli.CompleteFlag(c, f.Name, cobra.NoFileCompletions)
		}
	}
	c.Flags().VisitAll(prepare)
	c.PersistentFlags().VisitAll(prepare)
	for _, sub := range c.Commands() {
		prepareCompletions(sub)
	}
}
