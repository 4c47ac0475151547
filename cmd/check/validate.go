// Package check contains the commands that check or show a document: validate, test, replay, ctk
// and graph.
package check

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

// NewValidateCommand returns the command flunq validate.
func NewValidateCommand(sh *cli.Shell) *cobra.Command {
	v := &validation{sh: sh}
	c := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Check workflow documents",
		Long: `Checks workflow documents without running them. Every mistake is shown on stderr
with its position, the lines around it and a suggested fix.

FILE is a document in YAML or JSON, "-" for stdin, or a folder. In a folder,
every .yaml, .yml and .json file with a "document:" key is checked.
Exit code: 0 if all are valid, 5 if one is not, 2 if one cannot be read.`,
		Example: `  flunq validate order.yaml
  flunq validate --strict -o json workflows/ | jq '.[] | select(.valid | not)'`,
		GroupID: cli.GroupDevelop,
		Args:    cli.SomeArguments("file"),
	}
	c.Flags().BoolVar(&v.strict, "strict", false, "treat warnings as errors")
	v.format = cli.OutputFlag(c, "text", "json")
	c.RunE = func(c *cobra.Command, args []string) error { return v.run(c.Context(), args) }
	return c
}

// validation is one run of the command.
type validation struct {
	sh     *cli.Shell
	format *cli.Choice
	strict bool

	verdicts []verdict
}

// verdict is the result for one document.
type verdict struct {
	File     string     `json:"file"`
	Valid    bool       `json:"valid"`
	Mistakes []cli.Note `json:"mistakes"`
	Warnings []cli.Note `json:"warnings"`
}

func (v *validation) run(ctx context.Context, args []string) error {
	unread := cli.EachWorkflow(ctx, v.sh, args, v.check)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if v.format.String() == "json" {
		if err := cli.WriteJSON(v.sh.Out, v.verdicts); err != nil {
			return err
		}
	}
	switch {
	case unread != nil:
		return unread
	case slices.ContainsFunc(v.verdicts, func(d verdict) bool { return !d.Valid }):
		return cli.Reported(cli.ExitInvalid)
	default:
		return nil
	}
}

func (v *validation) check(name string, source []byte) {
	def, warnings, err := dsl.Parse(name, source)
	d := verdict{File: name, Mistakes: cli.MistakeNotes(err), Warnings: cli.WarningNotes(warnings)}
	if v.strict {
		d.Mistakes, d.Warnings = append(d.Mistakes, d.Warnings...), nil
	}
	d.Valid = len(d.Mistakes) == 0
	v.verdicts = append(v.verdicts, d)
	if v.format.String() == "json" {
		return
	}
	cli.ExplainMistakes(v.sh, err)
	if v.strict || !v.sh.Quiet {
		yaml.RenderWarnings(v.sh.Err, source, warnings, v.sh.ErrColor())
	}
	if v.sh.Quiet {
		return
	}
	word, style, what, number := "invalid", cli.Red, "mistake", len(d.Mistakes)
	if d.Valid {
		word, style, what, number = "ok", cli.Green, "task", 0
		for ref := range def.Tasks() {
			if strings.HasPrefix(ref, "/do/") { // not of a function
				number++
			}
		}
	}
	fmt.Fprintf(v.sh.Out, "%s %s (%s)%s\n", cli.Paint(v.sh.OutColor(), style, word), cli.Printable(name),
		history.Count(number, what), alsoWarnings(len(d.Warnings)))
}

func alsoWarnings(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + history.Count(n, "warning")
}
