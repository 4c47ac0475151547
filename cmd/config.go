package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
)

func newConfigCommand(sh *cli.Shell) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "config",
		Short: "Show, set and choose contexts and settings",
		Long: `Commands look for their Redis and their tenant in this order: flags (--redis-url,
--tenant, --context), the environment (REDIS_URL, REDIS_PASSWORD, FLUNQ_TENANT,
FLUNQ_CONTEXT), the context chosen in the configuration file, a running
'flunq dev', and finally redis://127.0.0.1:6379 and the tenant "default".

rediss://, rediss-sentinel:// and rediss-cluster:// use TLS. If Redis requires client
certificates, or the system does not know its CA, the address names the files:

    rediss://host:6380/0?tls_ca=ca.crt&tls_cert=tls.crt&tls_key=tls.key

The client certificate is read again for each connection, so it can be replaced;
tls_ca is read once, when a process starts.

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
		Example: `  flunq config set redis-url rediss://redis.internal:6380 --context prod
  flunq config use prod
  flunq config show`,
		GroupID: cli.GroupAbout,
	}, newConfigShowCommand(sh), newConfigListCommand(sh), newConfigUseCommand(sh), newConfigSetCommand(sh),
		newConfigUnsetCommand(sh), newConfigRemoveCommand(sh), newConfigPathCommand(sh))
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
	c.Flags().StringVar(&schedulerConfig, "scheduler-config", "", "use the documented scheduler service's settings in `FILE`, as in 'flunq serve'")
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
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, cli.Printable(cmp.Or(s.Value, "-")), cli.Printable(s.From))
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
	format := cli.OutputFlag(c)
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
		RunE: func(_ *cobra.Command, args []string) error {
			return setKey(sh, "context", "", args[0])
		},
	}
}

func newConfigSetCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "set KEY VALUE",
		Short: "Set a key of a context, or a setting",
		Long: `Sets a key in the configuration file and keeps the rest of the file. redis-url,
redis-password-file and tenant belong to the chosen context, or the one that --context names,
which need not exist yet. All other keys are settings of 'flunq serve' and 'flunq dev';
'flunq config show' lists them. If VALUE is -, it is read from stdin, without echo on a terminal.`,
		Example: `  flunq config set redis-url rediss://redis.internal:6380 --context prod
  flunq config set worker-concurrency 8
  flunq config set kafka-password - < password`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Misusef("%s: want a key and a value%s", c.Name(), cli.SeeHelp(c))
			}
			return nil
		},
		ValidArgsFunction: cli.CompleteConfigKeys,
	}
	of := contextFlag(c, sh, "set the key of the context `NAME`")
	c.RunE = func(_ *cobra.Command, args []string) error {
		return setKey(sh, args[0], *of, args[1])
	}
	return c
}

// contextFlag adds the flag that names a context.
func contextFlag(c *cobra.Command, sh *cli.Shell, help string) *string {
	name := c.Flags().String("context", "", help)
	cli.CompleteFlag(c, "context", cli.CompleteContexts(sh))
	return name
}

func setKey(sh *cli.Shell, name, contextName, value string) error {
	file, err := cli.ReadConfig(sh)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it will be created
		return err
	}
	key, err := file.Key(sh, name, contextName)
	if err != nil {
		return err
	}
	if value == "-" {
		if value, err = cli.ReadSecret(sh, name); err != nil {
			return err
		}
	}
	shown, err := file.Set(key, value)
	if err != nil {
		return err
	}
	sh.Hint("%s is %s (%s)", named(name, key), cli.Printable(shown), filepath.Base(file.Path))
	if info, err := os.Stat(file.Path); err == nil && shown != value && info.Mode().Perm()&0o077 != 0 {
		sh.Hint("help: others can read the file, which may contain a password: chmod 600 %s", cli.Printable(file.Path))
	}
	if sh.Env(key.Variable) != "" {
		sh.Hint("help: the environment variable %s takes precedence", key.Variable)
	}
	if key.Context != "" && key.Context != file.Current.Text {
		sh.Hint("help: 'flunq config use %s' chooses this context", cli.Printable(key.Context))
	}
	return nil
}

// named returns the name of a key with that of its context.
func named(name string, key cli.ConfigKey) string {
	if key.Context == "" {
		return name
	}
	return name + " of context " + cli.Printable(key.Context)
}

func newConfigUnsetCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "unset KEY",
		Short: "Remove a key of a context, or a setting",
		Example: `  flunq config unset tenant --context prod
  flunq config unset worker-concurrency`,
		Args:              cli.OneArgument("key"),
		ValidArgsFunction: cli.CompleteConfigKeys,
	}
	of := contextFlag(c, sh, "remove the key of the context `NAME`")
	c.RunE = func(_ *cobra.Command, args []string) error {
		file, err := cli.ReadConfig(sh)
		if err != nil {
			return err
		}
		key, err := file.Key(sh, args[0], *of)
		if err != nil {
			return err
		}
		had, err := file.Unset(key)
		switch {
		case err != nil:
			return err
		case !had:
			sh.Hint("%s is not set in %s", named(args[0], key), cli.Printable(file.Path))
		default:
			sh.Hint("removed %s (%s)", named(args[0], key), filepath.Base(file.Path))
		}
		return nil
	}
	return c
}

func newConfigRemoveCommand(sh *cli.Shell) *cobra.Command {
	return &cobra.Command{
		Use:               "rm CONTEXT",
		Short:             "Remove a context from the configuration file",
		Example:           "  flunq config rm staging",
		Args:              cli.OneArgument("context"),
		ValidArgsFunction: cli.CompleteContexts(sh),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := cli.ReadConfig(sh)
			if err != nil {
				return err
			}
			if err := file.Remove(args[0]); err != nil {
				return err
			}
			chosen := ""
			if file.Current.Text == args[0] {
				chosen = ", which was the chosen one"
			}
			sh.Hint("removed context %s%s (%s)", cli.Printable(args[0]), chosen, filepath.Base(file.Path))
			return nil
		},
	}
}
