package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
	"flunq.io/flunq/sim/spec"
)

// checks returns the expectations of --expect and --once.
func (s *searcher) checks(cfg sim.Config) ([]search.Check, error) {
	var out []search.Check
	input, err := canonical.Decode(cfg.Input)
	if err != nil {
		input = map[string]any{}
	}
	for _, source := range s.expect {
		p, err := expr.Compile(source, search.ExpectVariable)
		if err != nil {
			return nil, cli.Misusef("--expect %q: %v", source, err)
		}
		out = append(out, search.Always(source, p, input))
	}
	for _, call := range s.once {
		method, pattern, spaced := strings.Cut(strings.TrimSpace(call), " ")
		if !spaced {
			method, pattern = "", method
		}
		pattern = strings.TrimSpace(pattern)
		if pattern == "" || pattern[0] != '*' && !strings.Contains(pattern, "://") {
			return nil, cli.Misusef("--once %q: want a method and a URL, such as 'POST https://pay.example/*'", call)
		}
		check, made := search.Once(strings.ToUpper(method), pattern)
		out, s.made = append(out, check), append(s.made, made)
	}
	return out, nil
}

// subjects returns the simulations to search: one, or one for each test.
func (s *searcher) subjects(ctx context.Context, base search.Search) ([]subject, error) {
	if s.test == "" {
		return []subject{{search: base}}, nil
	}
	read := func(file string) ([]byte, error) { return cli.ReadDocument(ctx, s.sh, file) }
	suite, _, err := spec.NewLoader(read).Load(s.test)
	if mistakes, ok := errors.AsType[*yaml.Mistakes](err); ok {
		mistakes.Render(s.sh.Err, s.sh.ErrColor())
		return nil, cli.Reported(cli.ExitInvalid)
	}
	if err != nil {
		return nil, err
	}
	if id := suite.Workflow.Definition.ID(); id != base.Config.Definition.ID() {
		return nil, cli.Misusef("--test %s: it tests %s, not %s", s.test, id, base.Config.Definition.ID())
	}
	var out []subject
	for _, c := range suite.Cases {
		if missing := cli.MissingSecrets(suite.Workflow.Definition, suite.Workflow.File, c.Secrets, s.test); missing != nil {
			missing.Render(s.sh.Err, s.sh.ErrColor())
			return nil, cli.Reported(cli.ExitMisuse)
		}
		out = append(out, subject{c.Name, caseSearch(base, suite, c)})
	}
	if len(out) == 0 {
		return nil, cli.Misusef("--test %s: it contains no tests", s.test)
	}
	return out, nil
}

// caseSearch returns the search for a test case.
func caseSearch(base search.Search, suite *spec.Suite, c *spec.Case) search.Search {
	cfg := &base.Config
	for _, d := range suite.With {
		if !slices.ContainsFunc(cfg.With, func(def *dsl.Definition) bool { return def.ID() == d.Definition.ID() }) {
			cfg.With = append(slices.Clone(cfg.With), d.Definition)
		}
	}
	cfg.Input, cfg.Mocks, cfg.Secrets, cfg.Start = c.Input, c.Mocks, c.Secrets, c.Start
	base.Checks = append(slices.Clone(base.Checks), func(t *sim.Trial) []sim.Violation { return caseViolations(c, t) })
	return base
}

// caseViolations checks a run against the expectations that hold despite faults: status,
// output, error and events, but not durations, the order of tasks or the number of calls.
func caseViolations(c *spec.Case, t *sim.Trial) []sim.Violation {
	o := &spec.Outcome{Result: t.Result}
	for _, end := range t.Ends {
		o.History = append(o.History, end.History...)
	}
	var out []sim.Violation
	for _, d := range c.Check(o) {
		switch d.Expect {
		case "status", "output", "error", "events":
			out = append(out, sim.Violation{
				Rule: fmt.Sprintf("test %q: %s%s", c.Name, d.Expect, d.Path), Execution: t.Execution,
				Detail: strings.TrimSpace(fmt.Sprintf("%s want %s, got %s", d.Why, d.Want(), d.Got())),
			})
		}
	}
	return out
}

// scenario reads --plan.
func (s *searcher) scenario(ctx context.Context) (search.Scenario, error) {
	text, err := s.planText(ctx)
	if err != nil {
		return search.Scenario{}, err
	}
	sc, err := search.ParseScenario(text)
	return sc, cli.Fail(cli.ExitMisuse, err)
}

// planText returns the plan of --plan.
func (s *searcher) planText(ctx context.Context) ([]byte, error) {
	if strings.HasPrefix(strings.TrimSpace(s.plan), "{") {
		return []byte(s.plan), nil
	}
	return cli.ReadDocument(ctx, s.sh, s.plan)
}

// hintMissing says how many faults of a plan did not occur.
func (s *searcher) hintMissing(planned []sim.Fault, occurred map[sim.FaultKind]int) {
	missing := len(planned)
	for _, n := range occurred {
		missing -= n
	}
	if missing > 0 {
		s.sh.Hint("%s of the plan did not occur: no such service or command, or the fault is not possible there", history.Count(missing, "fault"))
	}
}

// repeatCommand returns the command line without the flags that a plan replaces.
func repeatCommand(c *cobra.Command, args []string) string {
	return commandLine(c, args, func(flag string) bool {
		return slices.Contains([]string{"input", "mocks", "secrets", "start", "max-time", "with", "expect", "once", "test"}, flag)
	})
}
