package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// The checks include trimmed entries: a timer that fires again because its event was
// duplicated is no violation, and one that fires after the end is.
func TestPublishedIncludesTrimmedEntries(t *testing.T) {
	t.Parallel()
	fired, ended := [2]string{"x/do/0/w/wait/1", string(event.TimerFired)}, [2]string{"x/4", string(event.WorkflowCompleted)}
	for _, c := range []struct {
		name    string
		entries [][2]string
		faults  []FaultKind
		want    []string
	}{
		{"it fires again", [][2]string{fired, ended, fired}, []FaultKind{Duplicate}, nil},
		{"it fires again for no reason", [][2]string{fired, ended, fired}, nil, []string{"an event is published once"}},
		{"another one fires", [][2]string{ended, {"x/do/0/w/wait/2", string(event.TimerFired)}}, nil, []string{"no timer outlives its execution"}},
	} {
		cfg := twoProcesses(t).WithDefaults()
		cfg.Plan = &Plan{}
		sim, err := newSimulation(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sim.close)
		for i, e := range c.entries {
			if i == len(c.entries)-1 { // the first one goes before the last one comes
				second := fmt.Sprintf("%d-1", cfg.Start.UnixMilli())
				if err := sim.client.Do(t.Context(), "xtrim", sim.streams[0], "minid", second).Err(); err != nil {
					t.Fatal(err)
				}
			}
			values := []any{"id", e[0], "type", e[1], "executionid", "x", "time", "2026-01-01T00:00:00Z"}
			if err := sim.client.XAdd(t.Context(), &redis.XAddArgs{Stream: sim.streams[0], Values: values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range c.faults {
			sim.injected = append(sim.injected, InjectedFault{Fault: Fault{Kind: kind}})
		}
		(&checker{&sim.monitor}).checkPublished(&Trial{})
		var got []string
		for _, v := range sim.violations {
			got = append(got, v.Rule)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: broken %q, want %q", c.name, got, c.want)
		}
	}
}
