package cmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
)

func newConfigCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and choose contexts and settings",
		Long: `Commands look for their Redis and their tenant in this order: flags (--redis-url,
--tenant, --context), the environment (REDIS_URL, REDIS_PASSWORD, FLUNQ_TENANT,
FLUNQ_CONTEXT), the context chosen in the configuration file, a running
'flunq dev', and finally redis://127.0.0.1:6379 and the tenant "default".

'flunq dev' publishes its address in $XDG_RUNTIME_DIR/flunq/dev.json (FLUNQ_STATE names
another folder).

The configuration is $XDG_CONFIG_HOME/flunq/config.yaml (~/.config), or what
FLUNQ_CONFIG names:

    context: prod
    contexts:
      prod:
        redis-url: rediss://flunq@redis.internal:6380/0
        redis-password-file: prod.password     # beside this file
        tenant: acme
    settings:                                 # of 'flunq serve' and 'flunq dev'
      worker-concurrency: 8`,
		Example: `  flunq config show
  flunq config use prod
  flunq ps --context prod`,
		GroupID: cli.GroupAbout,
		Args:    cli.KnownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newConfigShowCommand(sh), newConfigListCommand(sh), newConfigUseCommand(sh), newConfigPathCommand(sh))
	return c
}

func newConfigShowCommand(sh *cli.Shell) *cobra.Command {
	var schedulerConfig string
	c := &cobra.Command{
		Use:   "show",
		Short: "Show each value, and where it comes from",
		Example: `  flunq config show
  REDIS_URL=redis://127.0.0.1:7000 flunq config show -o json | jq '.[0]'`,
		Args: cli.NoArguments,
	}
	t, format := cli.TargetFlags(c, sh), cli.OutputFlag(c, "table", "json", "yaml")
	c.Flags().StringVar(&schedulerConfig, "scheduler-config", "", "with the settings of the documented scheduler service in `FILE`, as 'flunq serve'")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return showConfig(c.Context(), sh, t, schedulerConfig, format.String())
	}
	return c
}

func showConfig(ctx context.Context, sh *cli.Shell, t *cli.Target, schedulerConfig, format string) error {
	file, err := cli.ReadConfig(sh)
	if err != nil {
		return err
	}
	if file.Scheduler, err = cli.SchedulerConfig(sh, schedulerConfig, false); err != nil {
		return err
	}
	if t.Scheduler = file.Scheduler; t.Scheduler != nil {
		for _, warning := range t.Scheduler.Warnings {
			sh.Hint("%s", cli.Printable(warning))
		}
	}
	_, sources, err := cli.LoadSettings(sh, file)
	if err != nil {
		return err
	}
	p, err := t.Resolve(ctx)
	if err != nil {
		return err
	}
	all := append(p.Sources(), sources...)
	if format != "table" {
		return cli.WriteValue(sh.Out, format, all)
	}
	table := tabwriter.NewWriter(sh.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVALUE\tFROM")
	for _, s := range all {
		value := s.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, cli.Printable(value), cli.Printable(s.From))
	}
	return table.Flush()
}

// contextRow is a context in a listing.
type contextRow struct {
	Name    string `json:"name"`
	URL     string `json:"redis_url,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Current bool   `json:"current"`
}

func newConfigListCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:     "ls",
		Short:   "List the contexts",
		Example: "  flunq config ls",
		Aliases: []string{"list"},
		Args:    cli.NoArguments,
	}
	format := cli.ListFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		file, err := cli.ReadConfig(sh)
		if err != nil {
			return err
		}
		var rows []contextRow
		for _, one := range file.Contexts {
			rows = append(rows, contextRow{one.Name, store.Redacted(one.URL.Text), one.Tenant.Text, one.Name == file.Current.Text})
		}
		return cli.List[contextRow]{
			Columns: []cli.Column[contextRow]{
				{Title: "CONTEXT", Text: func(r contextRow) string { return r.Name }},
				{Title: "REDIS", Text: func(r contextRow) string { return r.URL }},
				{Title: "TENANT", Text: func(r contextRow) string { return r.Tenant }},
				{Title: "CURRENT", Text: func(r contextRow) string {
					if r.Current {
						return "yes"
					}
					return ""
				}},
			},
			ID:    func(r contextRow) string { return r.Name },
			Empty: "no contexts in " + file.Path,
		}.Print(sh, format, rows)
	}
	return c
}

func newConfigPathCommand(sh *cli.Shell) *cobra.Command {
	return &cobra.Command{
		Use:     "path",
		Short:   "Print the path of the configuration file",
		Example: `  $EDITOR "$(flunq config path)"`,
		Args:    cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			path, _ := cli.ConfigPath(sh)
			fmt.Fprintln(sh.Out, cli.Printable(path))
			return nil
		},
	}
}

func newConfigUseCommand(sh *cli.Shell) *cobra.Command {
	return &cobra.Command{
		Use:               "use CONTEXT",
		Short:             "Choose the context that commands use",
		Example:           "  flunq config use prod",
		Args:              cli.OneArgument("context"),
		ValidArgsFunction: cli.CompleteContexts(sh),
		RunE:              func(_ *cobra.Command, args []string) error { return useContext(sh, args[0]) },
	}
}

// useContext changes the line of the file that selects the context and keeps the rest of
// the file.
func useContext(sh *cli.Shell, name string) error {
	file, err := cli.ReadConfig(sh)
	if err != nil {
		return err
	}
	if _, err := file.Context(name, "config use"); err != nil {
		return err
	}
	text, err := os.ReadFile(file.Path)
	if err != nil {
		return cli.Fail(cli.ExitMisuse, cli.WithoutVerb(file.Path, err))
	}
	lines := strings.SplitAfter(string(text), "\n")
	line, found := contextLine(lines)
	chosen := "context: " + yamlText(name) + "\n"
	if found {
		_, comment, commented := strings.Cut(lines[line], " #")
		if commented {
			chosen = strings.TrimSuffix(chosen, "\n") + " #" + comment
		}
		lines[line] = chosen
	} else {
		lines = append([]string{chosen}, lines...)
	}
	if err := cli.ReplaceFile(file.Path, []byte(strings.Join(lines, ""))); err != nil {
		return cli.Fail(cli.ExitMisuse, fmt.Errorf("%s: %w", file.Path, err))
	}
	after, err := cli.ReadConfig(sh)
	if err != nil || after.Current.Text != name {
		// The context could not be selected by changing one line: restore the file.
		_ = cli.ReplaceFile(file.Path, text)
		return cli.Misusef("%s: cannot be changed line by line: add 'context: %s' to it by hand", file.Path, name)
	}
	sh.Hint("commands use context %s (%s)", cli.Printable(name), filepath.Base(file.Path))
	return nil
}

// contextLine finds the unindented line of the context key.
func contextLine(lines []string) (int, bool) {
	for i, line := range lines {
		if key, _, ok := strings.Cut(line, ":"); ok && strings.Trim(key, `"'`) == "context" {
			return i, true
		}
	}
	return 0, false
}

// yamlText returns a name, quoted if YAML requires it.
func yamlText(name string) string {
	plain := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	}) < 0
	switch strings.ToLower(name) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return name
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}
