package check

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/conformance"
)

// NewConformanceCommand returns the command flunq ctk.
func NewConformanceCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "ctk [FOLDER]",
		Short: "Run the official conformance scenarios",
		Long: `Runs the scenarios of the specification's conformance test kit (CTK) on the engine,
in the simulator, and shows how many of each feature pass. The services that they
call are mocked, so no network is needed.

FOLDER holds .feature files, at any depth, to run instead of the built-in scenarios of
DSL 1.0.3 and of the specification's main branch.

Exit code: 0 if all pass, 4 if one fails, 2 if the scenarios cannot be read.`,
		Example: `  flunq ctk
  flunq ctk ctk/features -o json | jq '.[] | select(.passed | not)'`,
		GroupID: cli.GroupDevelop,
		Args:    cli.AtMostOne("folder"),
	}
	format := cli.OutputFlag(c, "table", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		files, where := conformance.Official(), "flunq"
		if len(args) == 1 {
			files, where = os.DirFS(args[0]), args[0]
			if info, err := os.Stat(where); err != nil || !info.IsDir() {
				return cli.Misusef("%s is not a folder: want one with .feature files", where)
			}
		}
		scenarios, err := conformance.Read(files)
		switch {
		case err != nil:
			return cli.Misusef("read the scenarios in %s: %v", where, err)
		case len(scenarios) == 0:
			return cli.Misusef("no scenarios found in %s: want a folder with .feature files", where)
		}
		results, err := runScenarios(c.Context(), scenarios)
		if err != nil {
			return err
		}
		if format.String() != "json" {
			conformanceTable(sh, results)
		} else if err := cli.WriteJSON(sh.Out, results); err != nil {
			return err
		}
		if slices.ContainsFunc(results, func(r scenarioResult) bool { return !r.Passed }) {
			return cli.Reported(cli.ExitUnexpected)
		}
		return nil
	}
	return c
}

// scenarioResult is the result of one scenario.
type scenarioResult struct {
	Version string `json:"version"`
	Feature string `json:"feature"`
	Name    string `json:"name"`
	File    string `json:"file"`
	Line    int64  `json:"line"`
	Passed  bool   `json:"passed"`
	Reason  string `json:"reason,omitempty"`
}

func runScenarios(ctx context.Context, scenarios []conformance.Scenario) ([]scenarioResult, error) {
	var results []scenarioResult
	for _, s := range scenarios {
		r := scenarioResult{Version: s.Version, Feature: s.Feature, Name: s.Name, File: s.File, Line: s.Line, Passed: true}
		if err := s.Check(ctx, simulateScenario); err != nil {
			r.Passed, r.Reason = false, err.Error()
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func simulateScenario(ctx context.Context, def *dsl.Definition, input json.RawMessage) (conformance.Outcome, error) {
	var history []event.Event
	r, err := sim.Run(ctx, sim.Config{
		Definition: def, Input: input, Mocks: conformance.Services(),
		Observe: func(events []event.Event) { history = append(history, events...) },
	})
	if err != nil {
		return conformance.Outcome{}, err
	}
	return conformance.Outcome{Status: r.Status, Output: r.Output, Error: r.Error, History: history}, nil
}

// featureRow is a line of the table: the scenarios of a feature, by version.
type featureRow struct {
	feature     string
	passed, all map[string]int
}

// conformanceTable prints how many scenarios of each feature pass in each version, and to stderr
// why the others fail.
func conformanceTable(sh *cli.Shell, results []scenarioResult) {
	table := cli.List[featureRow]{Columns: []cli.Column[featureRow]{
		{Title: "FEATURE", Text: func(r featureRow) string { return r.feature }},
	}}
	total := featureRow{"total", map[string]int{}, map[string]int{}}
	var rows []featureRow
	for _, r := range results {
		if total.all[r.Version] == 0 {
			table.Columns = append(table.Columns, cli.Column[featureRow]{Title: cmp.Or(cli.Printable(r.Version), "PASSED"), Text: func(row featureRow) string {
				if row.all[r.Version] == 0 {
					return ""
				}
				return fmt.Sprintf("%d/%d", row.passed[r.Version], row.all[r.Version])
			}})
		}
		at := slices.IndexFunc(rows, func(row featureRow) bool { return row.feature == r.Feature })
		if at < 0 {
			at = len(rows)
			rows = append(rows, featureRow{r.Feature, map[string]int{}, map[string]int{}})
		}
		for _, row := range []featureRow{rows[at], total} {
			row.all[r.Version]++
			if r.Passed {
				row.passed[r.Version]++
			}
		}
		if !r.Passed {
			fmt.Fprintln(sh.Err, cli.Printable(fmt.Sprintf("%s:%d: %s: %s", r.File, r.Line, r.Name, r.Reason)))
		}
	}
	table.Table(sh, append(rows, total), false)
}
