package cmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/cmd/cli"
)

// newManCommand returns the command with which packagers create the manual pages.
func newManCommand(sh *cli.Shell) *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages",
		Long:    "Writes a manual page for each command, each help topic and the settings into FOLDER.",
		Example: "  flunq man /usr/local/share/man",
		Hidden:  true,
		Args:    cli.OneArgument("folder"),
		RunE: func(c *cobra.Command, args []string) error {
			return writeManual(sh, c.Root(), args[0])
		},
	}
}

func writeManual(sh *cli.Shell, root *cobra.Command, folder string) error {
	pages := map[string]string{"man5/flunq-config.5": configPage(root)}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		section, name := manSection(c), strings.ReplaceAll(c.CommandPath(), " ", "-")
		pages[fmt.Sprintf("man%d/%s.%d", section, name, section)] = commandPage(c, name, section)
		for _, sub := range visible(c.Commands()) {
			add(sub)
		}
	}
	add(root)
	for file, text := range pages {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // manuals are for everyone
			return cli.Fail(cli.ExitMisuse, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return cli.Fail(cli.ExitMisuse, err)
		}
	}
	sh.Hint("%d pages in %s", len(pages), cli.Printable(folder))
	return nil
}

// The sections of the manual: commands, and overviews such as the help topics.
const (
	manCommands  = 1
	manSettings  = 5
	manOverviews = 7
)

func manSection(c *cobra.Command) int {
	if c.IsAdditionalHelpTopicCommand() {
		return manOverviews
	}
	return manCommands
}

// manPage is a manual page in the man(7) language.
type manPage struct{ strings.Builder }

func newManPage(name string, section int, short string) *manPage {
	p := &manPage{}
	version := cli.Version()
	date, _, _ := strings.Cut(version.Time, "T")
	date = cmp.Or(date, time.Unix(0, 0).UTC().Format(time.DateOnly)) // the same build gives the same pages
	fmt.Fprintf(p, ".TH %s %d %s \"flunq %s\" \"flunq manual\"\n", roff(strings.ToUpper(name)), section, date, roff(version.Version))
	fmt.Fprintf(p, ".SH NAME\n%s \\- %s\n", roff(name), roff(short))
	return p
}

func commandPage(c *cobra.Command, name string, section int) string {
	p := newManPage(name, section, c.Short)
	if c.Runnable() {
		fmt.Fprintf(p, ".SH SYNOPSIS\n\\fB%s\\fR\n", roff(c.UseLine()))
	}
	p.section("DESCRIPTION", about(c))
	p.flags("OPTIONS", c.NonInheritedFlags())
	p.flags("OPTIONS OF EVERY COMMAND", c.InheritedFlags())
	if c.HasExample() {
		p.WriteString(".SH EXAMPLES\n")
		p.literal(strings.Split(c.Example, "\n"))
	}
	p.seeAlso(c)
	return p.String()
}

// configPage describes the configuration file and all settings.
func configPage(root *cobra.Command) string {
	p := newManPage("flunq-config", manSettings, "contexts and settings of flunq")
	config, _, err := root.Find([]string{"config"})
	if err != nil {
		panic(err) // every build has this command
	}
	p.section("DESCRIPTION", config.Long)
	p.WriteString(".SH SETTINGS\n")
	p.text("Settings of 'flunq serve' and 'flunq dev'. In the environment they have these names; in the configuration file the same names in lower case with hyphens, such as worker-concurrency. 'flunq config show' prints the values that apply.")
	nothing := &cli.Shell{Streams: cli.Streams{Env: func(string) string { return "" }}}
	_, settings, err := cli.LoadSettings(nothing, nil)
	if err != nil {
		panic(err) // the defaults are valid
	}
	for _, s := range settings {
		help := s.Help
		if s.Value != "" && !strings.Contains(help, "(default:") {
			help += " (default: " + s.Value + ")"
		}
		fmt.Fprintf(p, ".TP\n\\fB%s\\fR\n%s\n", roff(s.Name), roff(help))
	}
	p.WriteString(".SH SEE ALSO\n.BR flunq\\-config (1),\n.BR flunq\\-serve (1)\n")
	return p.String()
}

func (p *manPage) section(title, text string) {
	fmt.Fprintf(p, ".SH %s\n", title)
	p.text(text)
}

// text writes paragraphs. Indented lines stay unchanged.
func (p *manPage) text(text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	literal := func(line string) bool { return strings.HasPrefix(line, " ") }
	for i := 0; i < len(lines); {
		switch line := lines[i]; {
		case literal(line):
			end := i
			for j, next := range lines[i:] {
				if literal(next) {
					end = i + j + 1
				} else if next != "" {
					break
				}
			}
			if i > 0 {
				p.WriteString(".PP\n")
			}
			p.literal(lines[i:end])
			i = end
			if i < len(lines) && lines[i] != "" {
				p.WriteString(".PP\n")
			}
		case line == "":
			i++
			if !literal(lines[i]) {
				p.WriteString(".PP\n")
			}
		default:
			p.WriteString(roff(line) + "\n")
			i++
		}
	}
}

// literal writes lines unchanged.
func (p *manPage) literal(lines []string) {
	p.WriteString(".nf\n")
	for _, line := range lines {
		p.WriteString(roff(line) + "\n")
	}
	p.WriteString(".fi\n")
}

func (p *manPage) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(p, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(p, ".TP\n\\fB%s\\fR", roff(name))
		if value != "" {
			fmt.Fprintf(p, " \\fI%s\\fR", roff(value))
		}
		switch f.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(p, "\n%s\n", roff(usage))
	})
}

// seeAlso refers to the command above and to those below.
func (p *manPage) seeAlso(c *cobra.Command) {
	var others []*cobra.Command
	if c.HasParent() {
		others = append(others, c.Parent())
	}
	others = append(others, visible(c.Commands())...)
	p.WriteString(".SH SEE ALSO\n")
	var lines []string
	for _, other := range others {
		lines = append(lines, fmt.Sprintf(".BR %s (%d)", roff(strings.ReplaceAll(other.CommandPath(), " ", "-")), manSection(other)))
	}
	fmt.Fprintln(p, strings.Join(lines, ",\n"))
}

// roff escapes text for man(7) so that a hyphen can be copied to a shell, a leading dot is not
// a request, and characters outside ASCII are written by number.
func roff(text string) string {
	var out strings.Builder
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		out.WriteString(`\&`)
	}
	for _, r := range text {
		switch {
		case r == '\\':
			out.WriteString(`\e`)
		case r == '-':
			out.WriteString(`\-`)
		case r > '~':
			fmt.Fprintf(&out, `\[u%04X]`, r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
