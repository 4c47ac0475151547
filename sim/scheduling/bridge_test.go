package scheduling_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/scheduling"
)

// Bridges keep their promises, whatever goes wrong.
func TestBridgeSeeds(t *testing.T) {
	t.Parallel()
	published, faults := 0, 0
	for seed := range *seeds {
		for _, random := range []bool{false, true} {
			plan := scheduling.Plan{Seed: seed, Bridge: true, Random: random}
			r, err := scheduling.Try(t.Context(), plan, scheduling.Mistake{})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Broken {
				t.Errorf("seed %d, random faults %v: %v", seed, random, v)
			}
			if seed%10 == 0 {
				if again, err := scheduling.Try(t.Context(), plan, scheduling.Mistake{}); err != nil || again.Trace != r.Trace {
					t.Errorf("seed %d, random faults %v: a second run has a different trace, %v", seed, random, err)
				}
			}
			published += r.Published
			faults += len(r.Injected)
		}
	}
	if published == 0 || faults == 0 {
		t.Errorf("%d events were published, with %d faults", published, faults)
	}
}

// The checker finds typical mistakes of such designs.
func TestBridgeMistakesAreFound(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		rule    string
		mistake scheduling.Mistake
		seed    uint64 // a seed that is known to find it
	}{
		{"each message is taken once", scheduling.Mistake{ // the position is stored separately from the entry
			Script: func(source string) string {
				return strings.Replace(source, "redis.call('HSET', positions, partition, log .. ' ' .. offset)", "", 1)
			},
			Bridge: func(o *bridge.Options, rdb wire.Redis) { o.Source = apart{o.Source, rdb} },
		}, 33},
		{"only trusted topics bring results of tasks", scheduling.Mistake{Bridge: func(o *bridge.Options, _ wire.Redis) { o.Trusted = o.Listen }}, 2},
		{"the events of an execution are published in order", scheduling.Mistake{ // failed messages are published after later ones
			Bridge: func(o *bridge.Options, _ wire.Redis) { o.Sink = &overtaken{Sink: o.Sink} },
		}, 35},
	} {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			for seed := m.seed; seed < m.seed+100; seed++ {
				r, err := scheduling.Try(t.Context(), scheduling.Plan{Seed: seed, Bridge: true, Random: true}, m.mistake)
				if err != nil {
					t.Fatal(err)
				}
				if i := slices.IndexFunc(r.Broken, func(v sim.Violation) bool { return v.Rule == m.rule }); i >= 0 {
					t.Logf("seed %d, %d faults: %v", seed, len(r.Injected), r.Broken[i])
					return
				}
			}
			t.Fatal("it was not found")
		})
	}
}

// apart stores the position of messages after adding them to the stream, not in one step.
type apart struct {
	bridge.Source

	rdb wire.Redis
}

func (a apart) Commit(ctx context.Context, messages []cloudevents.Message) {
	for i := range messages {
		m := &messages[i]
		a.rdb.HSet(ctx, "tenant:default:bridge", m.PartitionName(), fmt.Sprintf("%s %d", m.Log, m.Offset))
	}
}

// overtaken publishes failed messages again after the next messages.
type overtaken struct {
	bridge.Sink

	failed []cloudevents.Message
}

func (o *overtaken) Publish(ctx context.Context, messages []cloudevents.Message) []error {
	errs := o.Sink.Publish(ctx, append(slices.Clip(messages), o.failed...))
	o.failed = nil
	for i := range messages {
		if errs[i] != nil {
			o.failed, errs[i] = append(o.failed, messages[i]), nil
		}
	}
	return errs[:len(messages)]
}
