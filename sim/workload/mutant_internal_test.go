package workload

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/workflows"
)

// mutant is a bug in the Go code of the engine: a change of the nodes at some addresses, see
// goPackage.
type mutant struct {
	name, at, change string

	on string // the workload that is known to find it; "" for a modelled document
	n  uint64 // the seed of the workload, or the number of the modelled document
}

// selected selects the mutants of a test run; all by default.
var selected = flag.String("mutants", "", "a regular expression that selects the mutants to look for")

// plantedIn is the environment variable that names the active mutant.
const plantedIn = "FLUNQ_PLANTED"

// overlay writes the engine with all mutants to a folder, together with the overlay file
// for the go command. The engine's own code remains unchanged. It returns the overlay
// file, and for each mutant the source that it changes.
func overlay(t *testing.T, folder string) (file string, sources map[string]string) {
	t.Helper()
	root, err := filepath.Abs("../../engine")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]*goPackage{}
	sources = map[string]string{}
	for _, m := range mutants() {
		for at := range strings.SplitSeq(m.at, "; ") {
			at, address, _ := strings.Cut(at, " ")
			p := packages[at]
			if p == nil {
				if p, err = parsePackage(filepath.Join(root, at)); err != nil {
					t.Fatal(err)
				}
				packages[at] = p
			}
			if sources[m.name], err = p.plant(m.name, address, m.change); err != nil {
				t.Errorf("%s: %s: %v", m.name, at, err)
			}
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	replace := map[string]string{}
	write := func(path, text string) {
		to := filepath.Join(folder, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = to
	}
	for at, p := range packages {
		for path, edits := range p.edits {
			write(path, edited(p.sources[path], edits))
		}
		write(filepath.Join(root, at, "planted.go"), fmt.Sprintf(helpers, p.name, plantedIn))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, sources
}

// Every mutant is found.
func TestMutants(t *testing.T) {
	if os.Getenv(plantedIn) != "" {
		t.Skip("this is the mutant itself")
	}
	t.Parallel()
	folder := t.TempDir()
	binary := filepath.Join(folder, "mutants.test")
	file, sources := overlay(t, folder)
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", file, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	only := regexp.MustCompile(*selected)
	for _, m := range mutants() {
		if !only.MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			run := exec.CommandContext(t.Context(), binary, "-test.run", "^TestMutant$", "-test.v")
			run.Env = append(os.Environ(), plantedIn+"="+m.name)
			out, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("it was not found, by changing %s (%s): %v\n%s", m.at, sources[m.name], err, out)
			}
			_, found, _ := strings.Cut(string(out), "found by ")
			found, _, _ = strings.Cut(found, "\n")
			t.Log(m.name + ": " + found)
		})
	}
}

// TestMutant looks for the active mutant. TestMutants runs it.
func TestMutant(t *testing.T) {
	name := os.Getenv(plantedIn)
	if name == "" {
		t.Skip("no mutant is active")
	}
	all := mutants()
	i := slices.IndexFunc(all, func(m mutant) bool { return m.name == name })
	first := func(t *testing.T) string { return all[i].look(t) }
	for _, look := range []func(*testing.T) string{first, lookAtModels, lookAtWorkloads, lookAtEveryMessage, lookAtExamples} {
		found := look(t)
		if found == "" {
			continue
		}
		found = strings.ReplaceAll(found, "\n", " ")
		t.Log("found by " + found[:min(len(found), 300)])
		return
	}
	t.Error("it was not found")
}

// look runs the workload or document that is known to find the mutant.
func (m mutant) look(t *testing.T) string {
	switch m.on {
	case "":
		return lookAtModel(t, m.n, modelledChildren())
	case inEveryMessage:
		return lookAtEveryMessage(t)
	}
	all := workloads()
	i := slices.IndexFunc(all, func(l workload) bool { return l.Name == m.on })
	return all[i].look(t, m.n)
}

func lookAtModels(t *testing.T) string {
	with := modelledChildren()
	for n := range uint64(200) {
		if found := lookAtModel(t, n, with); found != "" {
			return found
		}
	}
	return ""
}

func lookAtModel(t *testing.T, n uint64, with []*dsl.Definition) string {
	m, ok := modelOf(n, with)
	if !ok {
		return ""
	}
	if wrong := m.wrong(tried(t, m.cfg, sim.Plan{})); len(wrong) > 0 {
		return fmt.Sprintf("modelled document %d: %s", n, wrong[0])
	}
	return ""
}

func lookAtWorkloads(t *testing.T) string {
	for seed := range uint64(30) {
		for _, l := range workloads() {
			if seed >= cmp.Or(l.Seeds, defaultSeeds) {
				continue // the workload's expectations hold for these seeds only
			}
			if found := l.look(t, seed); found != "" {
				return found
			}
		}
	}
	return ""
}

func (w workload) look(t *testing.T, seed uint64) string {
	cfg, plan := w.config(), w.plan()
	cfg.Seed, cfg.Remote = seed, seed%2 == 1
	if seed < 2 {
		plan = sim.Plan{}
	}
	if wrong := w.wrong(tried(t, cfg, plan)); len(wrong) > 0 {
		return fmt.Sprintf("workload %q, seed %d: %s", w.Name, seed, wrong[0])
	}
	return ""
}

func lookAtExamples(t *testing.T) string {
	for _, name := range workflows.Names() {
		e, err := workflows.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		parsed := func(text []byte) *dsl.Definition {
			def, _, err := dsl.Parse(name, text)
			if err != nil {
				t.Fatal(err)
			}
			return def
		}
		cfg := sim.Config{Definition: parsed(e.Document), Input: e.Input, ID: "example", Seed: 1}
		for _, child := range slices.Sorted(maps.Keys(e.With)) {
			cfg.With = append(cfg.With, parsed(e.With[child]))
		}
		if e.Mocks != nil {
			if cfg.Mocks, err = mock.Parse(name, e.Mocks); err != nil {
				t.Fatal(err)
			}
		}
		got := tried(t, cfg, sim.Plan{})
		want, err := canonical.Decode(e.Output)
		if err != nil {
			t.Fatal(err)
		}
		if output, err := canonical.Decode(got.Output); err != nil || !canonical.Equal(want, output) {
			return fmt.Sprintf("example %s: %s %s", name, got.Status, got.Output)
		}
		if len(got.Broken) > 0 {
			return fmt.Sprintf("example %s: %v", name, got.Broken[0])
		}
	}
	return ""
}
