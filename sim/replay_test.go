package sim_test

import (
	"bytes"
	"testing"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/workflows"
)

// recorded runs an example and gives its recording.
func recorded(t testing.TB, cfg sim.Config) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := sim.Record(t.Context(), cfg, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// replayed replays a recording.
func replayed(t testing.TB, src []byte, opts sim.ReplayOptions) *sim.Verdict {
	t.Helper()
	rec, err := sim.ReadRecording("run.jsonl", src, nil, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	v, err := sim.NewReplayer(opts).Replay(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Every example replays, whatever its seed was, decided again and simulated again.
func TestReplayExamples(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(6) {
				cfg, _ := exampleConfig(t, name)
				cfg.Seed, cfg.Remote, cfg.ID = seed, seed%2 == 1, "example"
				v := replayed(t, recorded(t, cfg), sim.ReplayOptions{StrictOrder: true, Full: true})
				if !v.Agrees || v.Order != sim.SameOrder || len(v.Notes) > 0 {
					t.Errorf("seed %d: %+v, %+v", seed, v, v.Difference)
				}
			}
		})
	}
}
