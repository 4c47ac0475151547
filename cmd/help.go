package cmd

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flunq.io/flunq/cmd/cli"
)

// newHelpCommand returns the command that explains a command or a topic. An unknown name is
// misuse.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND|TOPIC]",
		Short:   "Explain a command or a topic",
		Example: "  flunq help exit-codes",
		GroupID: cli.GroupAbout,
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return cli.CommandNames(c.Root()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			target, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				topic := strings.Join(args, " ")
				return cli.Misusef("no help on %q%s (see 'flunq --help')", topic,
					cli.DidYouMean(topic, cli.CommandNames(c.Root()), ""))
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}

// helpWidth is the maximum width of a help page, in columns.
const helpWidth = 80

// writeHelp prints the help of a command; commands are those of the root, in the order of the
// overview.
func writeHelp(sh *cli.Shell, c *cobra.Command, commands []*cobra.Command) {
	width := helpWidth
	if sh.Width > 0 {
		width = min(width, sh.Width)
	}
	page := &helpPage{w: sh.Out, color: sh.OutColor(), width: width}
	if !c.HasParent() {
		page.overview(c, commands)
		return
	}
	page.command(c)
}

type helpPage struct {
	w     io.Writer
	color bool
	width int
}

func (p *helpPage) overview(root *cobra.Command, commands []*cobra.Command) {
	fmt.Fprintf(p.w, "%s.\n\n", root.Short)
	fmt.Fprintln(p.w, p.wrapped("A workflow is a document in the CNCF Serverless Workflow DSL (Open Workflow Specification)."))
	for _, group := range root.Groups() {
		p.list(group.Title, slices.DeleteFunc(visible(commands), func(c *cobra.Command) bool { return c.GroupID != group.ID }))
	}
	p.list("Help topics (flunq help TOPIC)", helpTopics())
	p.heading("Flags of every command")
	fmt.Fprint(p.w, p.flags(root.PersistentFlags()))
	fmt.Fprintln(p.w, "\n'flunq COMMAND --help' explains a command and shows an example.")
	fmt.Fprintln(p.w, "Text shows the times of an engine in the zone of this machine, or of TZ; -o json\nand runs on a virtual clock show UTC.")
}

// about explains a command in full sentences.
func about(c *cobra.Command) string { return cmp.Or(c.Long, c.Short+".") }

// visible returns the commands that are not hidden.
func visible(commands []*cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(commands), func(c *cobra.Command) bool { return c.Hidden })
}

func (p *helpPage) command(c *cobra.Command) {
	fmt.Fprintln(p.w, p.wrapped(about(c)))
	if c.Runnable() {
		p.heading("Usage")
		fmt.Fprintf(p.w, "  %s\n", c.UseLine())
	}
	if c.HasExample() {
		p.heading("Example")
		fmt.Fprintln(p.w, c.Example)
	}
	if c.HasAvailableSubCommands() {
		p.list("Commands", visible(c.Commands()))
	}
	if !c.Runnable() {
		return
	}
	if c.HasAvailableLocalFlags() {
		p.heading("Flags")
		fmt.Fprint(p.w, p.flags(c.LocalFlags()))
	}
	p.heading("Flags of every command")
	fmt.Fprint(p.w, p.flags(c.InheritedFlags()))
}

// optionalValue matches how pflag shows a flag whose value may be left out.
var optionalValue = regexp.MustCompile(` (\w+)\[=[^]]*\]`)

// flags describes flags. "--coverage[=WORD]" says that the value may be left out.
func (p *helpPage) flags(set *pflag.FlagSet) string {
	return optionalValue.ReplaceAllStringFunc(set.FlagUsagesWrapped(p.width), func(text string) string {
		return fmt.Sprintf("%-*s", len(text), optionalValue.ReplaceAllString(text, "[=$1]"))
	})
}

// wrapped wraps each paragraph. Indented lines stay unchanged.
func (p *helpPage) wrapped(text string) string {
	var out strings.Builder
	column := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, " ") {
			if column > 0 {
				out.WriteByte('\n')
			}
			out.WriteString(line + "\n")
			column = 0
			continue
		}
		for word := range strings.FieldsSeq(line) {
			width := runewidth.StringWidth(word)
			switch {
			case column == 0:
			case column+1+width > p.width:
				out.WriteByte('\n')
				column = 0
			default:
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += width
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func (p *helpPage) list(title string, commands []*cobra.Command) {
	if len(commands) == 0 {
		return
	}
	p.heading(title)
	for _, c := range commands {
		fmt.Fprintf(p.w, "  %-12s %s\n", c.Name(), c.Short)
	}
}

func (p *helpPage) heading(title string) {
	fmt.Fprintf(p.w, "\n%s\n", cli.Paint(p.color, cli.Bold, title+":"))
}

// helpTexts are the texts of the help topics. A test runs the examples of dsl, mocks and tests.
//
//go:embed help/*.txt
var helpTexts embed.FS

// helpTopics returns the help pages that belong to no command. Cobra treats a command that cannot
// run as a help topic.
func helpTopics() []*cobra.Command {
	codes := helpTopic("exit-codes", "What the exit codes mean")
	codes.Example = `  # distinguish an invalid document from other failures
  flunq validate order.yaml || echo "exit code $?"`
	return []*cobra.Command{
		helpTopic("dsl", "Learn to write workflows"),
		helpTopic("mocks", "Run workflows without their services"),
		helpTopic("tests", "Test workflows"),
		codes,
		helpTopic("failures", "What can fail in production, and what happens then"),
		helpTopic("limits", "The limits of executions and processes"),
		helpTopic("cluster", "Running on a Redis Cluster, and what a failover may lose"),
		helpTopic("scheduler", "Publishing events at a given time"),
		helpTopic("bridge", "Events of workflows in Kafka and NATS"),
		helpTopic("telemetry", "Traces, metrics and logs"),
	}
}

func helpTopic(name, short string) *cobra.Command {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // every build has this file
	}
	return &cobra.Command{Use: name, Short: short, Long: string(text)}
}
