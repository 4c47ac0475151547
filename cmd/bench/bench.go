// Package bench measures the rates of the engine on a Redis and compares them with the rates
// of bare commands on the same Redis.
package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
)

// Options select what is measured and where.
type Options struct {
	URL       string         // of the Redis
	Own       bool           // only the bench uses this Redis: it is flushed between scenarios
	Only      []string       // names of scenarios; empty: all
	Duration  time.Duration  // of each measurement, approximately
	Quick     bool           // small numbers, to check that the bench works
	Timers    int            // pending timers in the scenario idle, and events in the scenario scheduler
	Processes int            // processes that run the services; 0: this one
	Engine    engine.Options // of the services, except names and tenants
	Command   []string       // starts a process that calls RunServices
	Kafka     []string       // brokers to which the scheduler also fires; it creates a topic
	Profiles  string         // folder for profiles of this process; "": none
	Log       *slog.Logger   // of the services

	// Progress, if set, is called with the progress of each measurement.
	Progress func(Progress)
}

// Progress is the progress of a run.
type Progress struct {
	Scenario  string
	Number    int     // of the scenario, from 1
	Of        int     // number of scenarios
	Measuring string  // the measurement within the scenario
	Share     float64 // finished share of the measurement, 0 to 1
}

// Scenario is a set of measurements.
type Scenario struct {
	Name, About string
	measure     func(context.Context, *scenarioRun) error // adds the results to the run
}

// Scenarios returns all scenarios in the order in which they run.
func Scenarios() []Scenario {
	return []Scenario{
		{"register", "timers: from their events to the set", func(ctx context.Context, s *scenarioRun) error { return timers{s}.register(ctx) }},
		{"fire", "timers: from the set to their events, and lateness", func(ctx context.Context, s *scenarioRun) error { return timers{s}.fire(ctx) }},
		{"steps", "workflows of tasks that do nothing", func(ctx context.Context, s *scenarioRun) error { return workflows{s}.steps(ctx) }},
		{"latency", "from the start of a workflow of one task to its end", func(ctx context.Context, s *scenarioRun) error { return latency{s}.measure(ctx) }},
		{"http", "workflows of one call to a server of this process", func(ctx context.Context, s *scenarioRun) error { return workflows{s}.http(ctx) }},
		{"idle", "cost of waiting for timers", func(ctx context.Context, s *scenarioRun) error { return idle{s}.measure(ctx) }},
		{"memory", "bytes in Redis", func(ctx context.Context, s *scenarioRun) error { return memory{s}.measure(ctx) }},
		{"scheduler", "events scheduled over gRPC and fired, on the bench's own Redis", func(ctx context.Context, s *scenarioRun) error { return scheduling{s}.measure(ctx) }},
		{"sim", "simulated workflows, and seeds of the simulator", func(ctx context.Context, s *scenarioRun) error { return simulator{s}.measure(ctx) }},
	}
}

// Run runs the scenarios. If ctx ends or an error occurs, the report contains the results
// so far.
func Run(ctx context.Context, opts Options) (*Report, error) {
	rdb, err := store.Dial(ctx, opts.URL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rdb.Close() }()
	report := &Report{Head: head(ctx, rdb, opts)}
	chosen := slices.DeleteFunc(Scenarios(), func(sc Scenario) bool { return len(opts.Only) > 0 && !slices.Contains(opts.Only, sc.Name) })
	for i, sc := range chosen {
		s := newScenarioRun(rdb, opts, Progress{Scenario: sc.Name, Number: i + 1, Of: len(chosen)})
		err := s.run(ctx, sc)
		report.Results = append(report.Results, s.results...)
		if err != nil {
			return report, fmt.Errorf("%s: %w", sc.Name, err)
		}
	}
	return report, nil
}

// run measures one scenario and removes its data.
func (s *scenarioRun) run(ctx context.Context, sc Scenario) (err error) {
	stop, err := s.profile(sc.Name)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, stop())
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		err = errors.Join(err, s.clear(tidy))
	}()
	return sc.measure(ctx, s)
}

// tidyTime is the maximum time of removing the data of a scenario.
const tidyTime = time.Minute

// size returns usual, or quick with Options.Quick.
func (o Options) size(usual, quick int) int {
	if o.Quick {
		return quick
	}
	return usual
}
