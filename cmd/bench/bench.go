// Package bench measures what the engine does in a second on a Redis, and beside
// it what that same Redis does when it is sent the bare commands.
package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
)

// Options say what is measured, and where.
type Options struct {
	URL       string         // of the Redis
	Own       bool           // nobody else uses that Redis: it is emptied between scenarios
	Only      []string       // names of scenarios; none: all
	Duration  time.Duration  // of each measurement, about
	Quick     bool           // small numbers, to see that all works
	Timers    int            // pending ones while nothing is due
	Processes int            // that the services run in; 0: this one
	Engine    engine.Options // of the services, but for their names and tenants
	Command   []string       // starts a process of services, which calls Crew
	Profiles  string         // folder for profiles of this process; "" for none
	Log       *slog.Logger   // of the services

	// Progress, if set, is told how far a measurement is.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Scenario  string
	Number    int     // of the scenario, from 1
	Of        int     // scenarios
	Measuring string  // what, within the scenario
	Share     float64 // of that, 0 to 1
}

// Scenario is something that is measured.
type Scenario struct {
	Name, About string
	measure     func(*stage, context.Context) error
}

// Scenarios are all that there are, in the order in which they are measured.
func Scenarios() []Scenario {
	return []Scenario{
		{"register", "timers, from their events into the set", (*stage).register},
		{"fire", "timers, from the set into their events, and how late", (*stage).fire},
		{"steps", "workflows of tasks that do nothing", (*stage).steps},
		{"latency", "from the start of a workflow of one task to its end", (*stage).latency},
		{"http", "workflows of one call to a server of this process", (*stage).http},
		{"idle", "what waiting for timers costs", (*stage).idle},
		{"memory", "bytes in Redis", (*stage).memory},
		{"sim", "simulated workflows, and seeds of the simulator", (*stage).sim},
	}
}

// Run measures. What is known when ctx ends, or an error comes, is in the report.
func Run(ctx context.Context, opts Options) (*Report, error) {
	rdb, err := store.Dial(ctx, opts.URL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rdb.Close() }()
	report := &Report{Head: head(ctx, rdb, opts)}
	chosen := opts.chosen()
	for i, sc := range chosen {
		s := newStage(rdb, opts, Progress{Scenario: sc.Name, Number: i + 1, Of: len(chosen)})
		err := s.run(ctx, sc)
		report.Results = append(report.Results, s.results...)
		if err != nil {
			return report, fmt.Errorf("%s: %w", sc.Name, err)
		}
	}
	return report, nil
}

func (o Options) chosen() []Scenario {
	if len(o.Only) == 0 {
		return Scenarios()
	}
	var out []Scenario
	for _, sc := range Scenarios() {
		for _, name := range o.Only {
			if name == sc.Name {
				out = append(out, sc)
			}
		}
	}
	return out
}

// run measures one scenario, and leaves nothing behind.
func (s *stage) run(ctx context.Context, sc Scenario) (err error) {
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
	return sc.measure(s, ctx)
}

// tidyTime is how long removing what a scenario has left may take.
const tidyTime = time.Minute

// size is a number of things, or a small one where a look is enough.
func (o Options) size(usual, quick int) int {
	if o.Quick {
		return quick
	}
	return usual
}

// Empty reports whether nothing stands in a Redis.
func Empty(ctx context.Context, rdb *redis.Client) (bool, error) {
	n, err := rdb.DBSize(ctx).Result()
	if err != nil {
		return false, fmt.Errorf("count the keys: %w", err)
	}
	return n == 0, nil
}
