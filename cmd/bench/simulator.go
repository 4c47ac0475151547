package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/explore"
	"flunq.io/flunq/sim/search"
)

// simulated returns a workflow of ten tasks, three of which wait for a day.
func simulated() workflow {
	var tasks strings.Builder
	for i := range 10 {
		if i%3 == 2 {
			fmt.Fprintf(&tasks, "  - t%d: {wait: P1D}\n", i)
		} else {
			fmt.Fprintf(&tasks, "  - t%d: {set: {n: \"${ (.n // 0) + 1 }\"}}\n", i)
		}
	}
	return workflow{name: "ten tasks, three of them waits", tasks: 10, text: document("simulated", tasks.String())}
}

// simulator measures the simulator, which needs no Redis.
type simulator struct{ *scenarioRun }

// measure measures simulated executions, a search for races, and seeds with faults.
func (s simulator) measure(ctx context.Context) error {
	w := simulated()
	baseline, err := s.interpret(ctx, w.text)
	if err != nil {
		return err
	}
	def, _, err := dsl.Parse("bench.yaml", []byte(w.text))
	if err != nil {
		return err
	}
	const limit = "the interpreter on one core, without an engine"
	cfg := sim.Config{Definition: def}
	runs, err := s.seeds(ctx, "executions", func(ctx context.Context, seed uint64) (*sim.Result, error) {
		cfg.Seed = seed
		return sim.Run(ctx, cfg)
	})
	if err != nil {
		return err
	}
	s.add(Result{Name: w.name, Unit: "executions/s", Rate: runs.rate(), Count: runs.n}.beside(baseline, limit))
	s.add(Result{Name: w.name, Unit: "tasks/s", Rate: runs.rate() * float64(w.tasks), Count: runs.n * w.tasks}.beside(baseline*float64(w.tasks), limit))
	found, err := s.search(ctx, sim.Config{Definition: def, Processes: 2})
	if err != nil {
		return err
	}
	s.add(Result{Name: "the same, searched without faults", Unit: "executions/s", Rate: found.rate(), Count: found.n}.beside(baseline, limit))
	cfg.ID, cfg.Processes, cfg.Executors = "bench", 2, 2
	trials, err := s.seeds(ctx, "seeds", func(ctx context.Context, seed uint64) (*sim.Result, error) {
		cfg.Seed, cfg.Plan = seed, &sim.Plan{Kinds: sim.Faults()}
		t, err := sim.Try(ctx, cfg)
		if err == nil && len(t.Broken) > 0 {
			return nil, fmt.Errorf("seed %d: %w", seed, t.Broken[0])
		}
		if err != nil {
			return nil, err
		}
		return t.Result, nil
	})
	if err != nil {
		return err
	}
	s.add(Result{Name: "seeds with faults, two processes", Unit: "seeds/s", Rate: trials.rate(), Count: trials.n}.beside(baseline, limit))
	return nil
}

// search runs the search of flunq sim --faults none on one core.
func (s simulator) search(ctx context.Context, cfg sim.Config) (drainResult, error) {
	began := time.Now()
	base := &search.Search{
		Config: cfg, First: 1, Last: math.MaxInt32, Parallel: 1,
		More: func() bool { return time.Since(began) < s.opts.Duration },
		Progress: func(explore.Progress) {
			s.report("executions of a search", float64(time.Since(began))/float64(s.opts.Duration))
		},
	}
	r, err := base.Run(ctx)
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return drainResult{}, err
	}
	if len(r.Findings) > 0 {
		return drainResult{}, fmt.Errorf("the search: %w", r.Findings[0].Violation)
	}
	return drainResult{n: r.Plain + r.Seeds, took: time.Since(began)}, nil
}

// seeds runs seeds one by one on one core.
func (s simulator) seeds(ctx context.Context, measuring string, run func(context.Context, uint64) (*sim.Result, error)) (drainResult, error) {
	began := time.Now()
	for n := 1; ; n++ {
		result, err := run(ctx, uint64(n))
		if err == nil && result.Status != decide.Completed && ctx.Err() == nil {
			err = fmt.Errorf("seed %d ended as %s", n, result.Status)
		}
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return drainResult{}, err
		}
		took := time.Since(began)
		if s.report(measuring, float64(took)/float64(s.opts.Duration)); took >= s.opts.Duration {
			return drainResult{n: n, took: took}, nil
		}
	}
}

// interpret returns how many executions of a document the interpreter alone decides per
// second. Timers fire as soon as they are requested.
func (s *scenarioRun) interpret(ctx context.Context, text string) (float64, error) {
	s.report("the limit: the interpreter", 0)
	def, _, err := dsl.Parse("bench.yaml", []byte(text))
	if err != nil {
		return 0, err
	}
	env := decide.NewEnv(def, decide.Options{Limits: decide.DefaultLimits()})
	n, began := 0, time.Now()
	for span := s.opts.Duration / 2; time.Since(began) < span; n++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := decideAll(env, began); err != nil {
			return 0, err
		}
	}
	return perSecond(n, time.Since(began)), nil
}

// decideAll decides an execution from start to end. Timers fire as soon as they are requested.
func decideAll(env *decide.Env, at time.Time) error {
	doc := env.Definition().Document
	started := event.Event{
		ID: "x/start", Source: decide.Prefix + "cli", Type: event.ExecutionStarted, Time: at.UTC(), Tenant: "default",
		Workflow: doc.Namespace + "." + doc.Name, Execution: "x",
		Data: event.Encode(event.Started{Namespace: doc.Namespace, Name: doc.Name, Version: doc.Version, Input: json.RawMessage("{}")}),
	}
	state := decide.New()
	for todo := []event.Event{started}; len(todo) > 0; todo = todo[1:] {
		var d decide.Decision
		if _, err := state.Apply(env, todo[0], &d); err != nil {
			return fmt.Errorf("decide: %w", err)
		}
		for state.Ready() {
			state.Advance(env, &d)
		}
		for _, e := range d.Publish {
			if e.Type != event.TimerScheduled {
				continue
			}
			var t event.Timer
			if err := decide.DecodeData(e, &t); err != nil {
				return fmt.Errorf("decide: %w", err)
			}
			e.ID, e.Source, e.Type, e.Time = e.ID+"/fired", "/flunq/timer", event.TimerFired, t.FireAt
			e.Data = event.Encode(event.Fired{Timer: t, ScheduledFor: t.FireAt, FiredAt: t.FireAt})
			todo = append(todo, e)
		}
	}
	if state.Status != decide.Completed {
		return fmt.Errorf("decide: the execution is %s", state.Status)
	}
	return nil
}
