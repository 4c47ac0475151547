package editor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/yaml"
)

// NewLintCommand returns the command flunq lint.
func NewLintCommand(sh *cli.Shell) *cobra.Command {
	l := &lint{sh: sh}
	always, portable := rules()
	c := &cobra.Command{
		Use:   "lint FILE…",
		Short: "Find likely mistakes in valid workflows",
		Long: `Shows what is valid in a workflow but probably does not do what its author meant,
each with its position, a suggestion and the name of the rule. This includes all
warnings of 'flunq validate'. FILE is as for validate. Exit code: 0 if
there are no findings, 4 if there are some, 5 if a document is invalid.

A comment on a line silences a rule for it, and for the lines below that are
indented further. On a line of its own it applies to the next line; above the
document it applies to all of it:

    - wait:  # flunq-lint: ignore listen-timeout
        listen: {to: {one: {with: {type: com.example.paid}}}}

The rules:
` + listed(always) + `
With --portable also what other runtimes do differently:
` + strings.TrimSuffix(listed(portable), "\n"),
		Example: `  flunq lint order.yaml
  flunq lint --portable -o json workflows/ | jq '.[].findings[].rule'`,
		GroupID: cli.GroupDevelop,
		Args:    cli.SomeArguments("file"),
	}
	c.Flags().BoolVar(&l.portable, "portable", false, "also show what other runtimes do differently")
	l.format = cli.OutputFlag(c, "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error { return l.run(c.Context(), args) }
	return c
}

// listed describes the rules, one per line.
func listed(rules []dsl.Rule) string {
	var out strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&out, "  %-18s  %s\n", r.Name, r.About)
	}
	return out.String()
}

// lint is one run of the command.
type lint struct {
	sh       *cli.Shell
	format   *cli.Choice
	portable bool

	reports []report
}

// report holds the mistakes and findings of one document.
type report struct {
	File     string     `json:"file"`
	Mistakes []cli.Note `json:"mistakes"` // if it is invalid
	Findings []cli.Note `json:"findings"`
}

func (l *lint) run(ctx context.Context, args []string) error {
	unread := cli.EachWorkflow(ctx, l.sh, args, l.document)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if l.format.String() == "json" {
		if err := cli.WriteJSON(l.sh.Out, l.reports); err != nil {
			return err
		}
	}
	switch {
	case unread != nil:
		return unread
	case slices.ContainsFunc(l.reports, func(r report) bool { return len(r.Mistakes) > 0 }):
		return cli.Reported(cli.ExitInvalid)
	case slices.ContainsFunc(l.reports, func(r report) bool { return len(r.Findings) > 0 }):
		return cli.Reported(cli.ExitUnexpected)
	default:
		return nil
	}
}

func (l *lint) document(name string, source []byte) {
	findings, err := Lint(name, source, l.portable)
	l.reports = append(l.reports, report{name, cli.MistakeNotes(err), cli.WarningNotes(findings)})
	if l.format.String() == "json" {
		return
	}
	if err != nil {
		cli.ExplainMistakes(l.sh, err)
		return
	}
	list := make([]yaml.Mistake, len(findings))
	for i, f := range findings {
		list[i] = yaml.Mistake(f)
		list[i].Message += " [" + f.Rule + "]"
	}
	yaml.NewMistakes(source, list).Render(l.sh.Out, l.sh.OutColor())
	if len(findings) > 0 && !l.sh.Quiet {
		fmt.Fprintf(l.sh.Err, "%s: %s\n", cli.Printable(name), history.Count(len(findings), "finding"))
	}
}
