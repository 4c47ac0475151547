package search_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/search"
)

// Sound workflows: the search reports neither a bug of flunq nor a race.
func TestSearchSound(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/sound/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			s, plans := readCase(t, name)
			s.Kinds, s.First, s.Last, s.Singles = sim.Faults(), 1, 12, 24
			reports := []*search.Report{report(t, s, nil)}
			for _, plan := range plans {
				reports = append(reports, report(t, s, &plan))
			}
			for _, r := range reports {
				for _, f := range r.Findings {
					if f.Class == search.Engine || f.Class == search.Race {
						t.Errorf("%s: %v, with %+v", f.Class, f.Violation, f.Small)
					}
				}
			}
		})
	}
}

// Workflows with one mistake each: a hint at the right task says what to change.
func TestSearchFaulty(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/faulty/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want, _, _ := strings.Cut(strings.TrimPrefix(string(archive.Comment), "want: "), "\n")
			where, text, _ := strings.Cut(want, ": ")
			s, _ := readCase(t, name)
			s.Kinds, s.First, s.Last, s.Singles = sim.Faults(), 1, 12, 60
			hints := report(t, s, nil).Hints
			if !slices.ContainsFunc(hints, func(h search.Hint) bool {
				return h.Task != nil && h.Kind+" "+h.Task.Name == where && strings.Contains(h.Text, text)
			}) {
				t.Errorf("hints %v, want %s", hints, want)
			}
		})
	}
}

// readCase reads a workflow with its mocks, a child, and plans.
func readCase(t *testing.T, name string) (s search.Search, plans []search.Scenario) {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Processes, s.Config.Executions = 2, 1
	for _, f := range archive.Files {
		switch {
		case f.Name == "mocks.yaml":
			s.Config.Mocks, err = mock.Parse(f.Name, f.Data)
		case filepath.Ext(f.Name) == ".json":
			var plan search.Scenario
			plan, err = search.ParseScenario(f.Data)
			plans = append(plans, plan)
		default:
			var def *dsl.Definition
			if def, _, err = dsl.Parse(f.Name, f.Data); f.Name == "workflow.yaml" {
				s.Config.Definition = def
			} else {
				s.Config.With = append(s.Config.With, def)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s, plans
}

// report returns the report of a search or of a plan.
func report(t *testing.T, s search.Search, plan *search.Scenario) (r *search.Report) {
	t.Helper()
	var err error
	if plan == nil {
		r, err = s.Run(t.Context())
	} else {
		s.First, s.Last = plan.Seed, plan.Seed
		r, err = s.Repeat(t.Context(), *plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}
