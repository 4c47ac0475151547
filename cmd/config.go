package cmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/store"
)

func newConfigCommand(sh *shell) *cobra.Command {
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
		GroupID: groupAbout,
		Args:    knownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newConfigShowCommand(sh), newConfigListCommand(sh), newConfigUseCommand(sh), newConfigPathCommand(sh))
	return c
}

func newConfigShowCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "show",
		Short: "Show each value, and where it comes from",
		Example: `  flunq config show
  REDIS_URL=redis://127.0.0.1:7000 flunq config show -o json | jq '.[0]'`,
		Args: noArguments,
	}
	t, format := targetFlags(c, sh), outputFlag(c, "table", "json", "yaml")
	c.RunE = func(c *cobra.Command, _ []string) error { return showConfig(c.Context(), sh, t, format.String()) }
	return c
}

func showConfig(ctx context.Context, sh *shell, t *target, format string) error {
	file, err := readConfig(sh)
	if err != nil {
		return err
	}
	_, sources, err := loadSettings(sh, file)
	if err != nil {
		return err
	}
	p, err := t.resolve(ctx)
	if err != nil {
		return err
	}
	all := append(p.sources(), sources...)
	if format != "table" {
		return writeValue(sh.Out, format, all)
	}
	table := tabwriter.NewWriter(sh.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVALUE\tFROM")
	for _, s := range all {
		value := s.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, printable(value), printable(s.From))
	}
	return table.Flush()
}

// sources returns the values of a place, with passwords redacted.
func (p place) sources() []source {
	p.url.Value, p.url.Help = store.Redacted(p.url.Value), "where the Redis is"
	p.tenant.Help = "whose executions commands are about"
	p.context.Help = "of the configuration file"
	p.password.Help = "of the Redis"
	if p.password.Value != "" || p.password.From != "" {
		p.password.Value = "***"
	}
	for _, s := range []*source{&p.password, &p.context} {
		if s.From == "" {
			s.From = fromDefault
		}
	}
	return []source{p.url, p.password, p.tenant, p.context}
}

// contextRow is a context in a listing.
type contextRow struct {
	Name    string `json:"name"`
	URL     string `json:"redis_url,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Current bool   `json:"current"`
}

func newConfigListCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:     "ls",
		Short:   "List the contexts",
		Example: "  flunq config ls",
		Aliases: []string{"list"},
		Args:    noArguments,
	}
	format := listFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		file, err := readConfig(sh)
		if err != nil {
			return err
		}
		var rows []contextRow
		for _, one := range file.contexts {
			rows = append(rows, contextRow{one.name, store.Redacted(one.url.text), one.tenant.text, one.name == file.current.text})
		}
		return list[contextRow]{
			columns: []column[contextRow]{
				{"CONTEXT", false, func(r contextRow) string { return r.Name }},
				{"REDIS", false, func(r contextRow) string { return r.URL }},
				{"TENANT", false, func(r contextRow) string { return r.Tenant }},
				{"CURRENT", false, func(r contextRow) string {
					if r.Current {
						return "yes"
					}
					return ""
				}},
			},
			id:    func(r contextRow) string { return r.Name },
			empty: "no contexts in " + file.path,
		}.print(sh, format, rows)
	}
	return c
}

func newConfigPathCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "path",
		Short:   "Print the path of the configuration file",
		Example: `  $EDITOR "$(flunq config path)"`,
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			path, _ := configPath(sh)
			fmt.Fprintln(sh.Out, printable(path))
			return nil
		},
	}
}

func newConfigUseCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:               "use CONTEXT",
		Short:             "Choose the context that commands use",
		Example:           "  flunq config use prod",
		Args:              oneArgument("context"),
		ValidArgsFunction: completeContexts(sh),
		RunE:              func(_ *cobra.Command, args []string) error { return useContext(sh, args[0]) },
	}
}

// useContext changes the one line of the file that selects the context, and keeps the rest of the
// file as it is.
func useContext(sh *shell, name string) error {
	file, err := readConfig(sh)
	if err != nil {
		return err
	}
	if _, err := file.context(name, "config use"); err != nil {
		return err
	}
	text, err := os.ReadFile(file.path)
	if err != nil {
		return fail(exitMisuse, withoutVerb(file.path, err))
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
	if err := replaceFile(file.path, []byte(strings.Join(lines, ""))); err != nil {
		return fail(exitMisuse, fmt.Errorf("%s: %w", file.path, err))
	}
	after, err := readConfig(sh)
	if err != nil || after.current.text != name {
		// The context could not be selected by changing one line: restore the file.
		_ = replaceFile(file.path, text)
		return misusef("%s: cannot be changed line by line: write 'context: %s' into it by hand", file.path, name)
	}
	sh.hint("commands use context %s (%s)", printable(name), filepath.Base(file.path))
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

// yamlText returns a name quoted as YAML needs it.
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
