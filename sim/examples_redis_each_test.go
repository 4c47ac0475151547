package sim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/recording"
	cases "flunq.io/flunq/sim/spec"
)

// Each example has the same history, byte for byte, on miniredis, on the simulator's own Redis
// and on a redis-server.
func TestExamplesOnEachRedis(t *testing.T) {
	t.Parallel()
	server := openRedisServer(t)
	for name, cfg := range everyExample(t) {
		t.Run(name, func(t *testing.T) {
			server.t = t
			for seed := range uint64(2) {
				cfg.Seed = seed
				want := recorded(t, cfg.On(server.open))
				if diff := gocmp.Diff(want, recorded(t, cfg)); diff != "" {
					t.Errorf("seed %d: -redis-server +miniredis:\n%s", seed, diff)
				}
				if diff := gocmp.Diff(want, recorded(t, cfg.OnOwn())); diff != "" {
					t.Errorf("seed %d: -redis-server +the simulator's own:\n%s", seed, diff)
				}
			}
		})
	}
}

// recorded returns the recording of a run: its history, its calls and its result.
func recorded(t *testing.T, cfg sim.Config) []string {
	t.Helper()
	var out strings.Builder
	if _, err := recording.Record(t.Context(), cfg, &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(out.String(), "\n")
}

// everyExample returns the examples: our own, and the specification's if it is there.
func everyExample(t *testing.T) map[string]sim.Config {
	t.Helper()
	out := map[string]sim.Config{}
	files, err := filepath.Glob("../workflows/*.test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		suite, _, err := cases.NewLoader(os.ReadFile).Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range suite.Cases {
			cfg := sim.Config{Definition: suite.Workflow.Definition, Input: c.Input, Mocks: c.Mocks, Secrets: c.Secrets, MaxTime: c.Until}
			for _, d := range suite.With {
				cfg.With = append(cfg.With, d.Definition)
			}
			if cfg.Mocks == nil {
				cfg.Mocks = &mock.Set{}
			}
			out[strings.TrimSuffix(filepath.Base(file), ".test.yaml")+"/"+c.Name] = cfg
		}
	}
	table := examples()
	for _, version := range []string{"v1.0.3", "main-2026-07-29"} {
		folder := filepath.Join(*spec, "examples", version)
		if _, err := os.Stat(folder); err != nil {
			continue // TestExamples says so
		}
		for _, name := range exampleNames(t, folder) {
			file := filepath.Join(folder, filepath.FromSlash(name))
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range slices.All(table[name]) {
				out[fmt.Sprintf("%s/%s/%d", version, name, i)] = e.config(t, file, src)
			}
		}
	}
	return out
}
