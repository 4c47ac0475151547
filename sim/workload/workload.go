// Package workload holds the simulator's own workflows, fixed and generated, with the results
// that they must have whatever faults happen.
package workload

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// act is an event for an execution, or an action of an operator on it, and its time.
type act struct {
	Execution string
	After     time.Duration
	Type      event.Type
	Task      string
	Data      string // JSON; event.Ended if empty

	Moved  time.Duration // instead of an event: the new due time of the task's timers
	Replay bool          // instead of an event: replay dead letters
}

// data returns the data of the event.
func (a act) data() json.RawMessage {
	if a.Data == "" {
		return event.Encode(event.Ended{Reason: "as planned"})
	}
	return json.RawMessage(a.Data)
}

// move moves the timers of a task, as 'flunq timers reschedule' does.
func (a act) move(ctx context.Context, o sim.Operator) error {
	pending, _, err := timers.New(o.Store).List(ctx, timers.Filter{Tenant: "default", Execution: a.Execution}, "", 1000)
	if err != nil {
		return err
	}
	for _, p := range pending {
		if p.TaskID != a.Task {
			continue
		}
		if _, _, err := timers.New(o.Store).Move(ctx, p, sim.Epoch().Add(a.Moved), "ada"); err != nil {
			return err
		}
	}
	return nil
}

// replay replays each dead letter twice, like two operators at the same time.
func (a act) replay(ctx context.Context, o sim.Operator) error {
	deadLetters, _, err := stream.New(o.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: "default", Range: store.Range{Count: 10}})
	if err != nil {
		return err
	}
	for _, l := range deadLetters {
		for n := range 2 {
			again, err := stream.New(o.Store).Replay(ctx, l)
			if err != nil {
				return err
			}
			if again != (n == 0) {
				o.Report("a dead letter is replayed once", l.Event.Execution, "attempt %d after %v returned %t", n+1, o.Elapsed.Round(time.Second), again)
			}
		}
	}
	return nil
}

// workload is a document that exercises rare cases of the engine, with the expected ends
// of its executions whatever faults happen.
type workload struct {
	Name, Document, Mocks string
	Input                 string // {} if empty
	With                  []string
	Executions, Tenants   int  // one each if 0
	Twins                 bool // each tenant has executions with the same ids
	Acts                  []act
	Kinds                 []sim.FaultKind   // all but Outage and CallLost if nil
	Rate, Seeds           uint64            // 60 and 120 if 0
	Most                  int               // maximum number of faults; 8 if 0
	Want                  map[string]string // by execution: its status, and optionally its output
	Processes             int               // 2 if 0
	Turns                 uint64            // maximum number of turns; 100,000 if 0
	Lasts                 time.Duration     // without faults; 0: not checked
	Once                  bool              // each call reaches its service once, whatever faults happen
	Calls                 int               // number of calls without faults; 0: not checked
	DeadLetters           []string          `yaml:"deadLetters"` // expected dead letters: event, service and number of deliveries
	CrashURL              string            `yaml:"crashURL"`    // a URL whose callers crash
	CrashType             event.Type        `yaml:"crashType"`   // a type of event whose consumers crash
	Fires                 []string          // timers that fire for no execution: their key, and the day before they are due
	Retention             *engine.Retention // depends on the seed if nil
	Breakers              *breaker.Options
}

const day = 24 * time.Hour

// defaultSeeds is the number of seeds that a workload runs with by default.
const defaultSeeds = 120

//go:embed workloads/*.yaml
var files embed.FS

// workloads reads the workloads. Companions are numbered in their order.
func workloads() (all []workload) {
	for _, name := range []string{"language", "features", "calls", "rest", "corners", "messages", "executions", "inputs"} {
		all = append(all, read(name)...)
	}
	return all
}

// read reads the workloads of one file.
func read(name string) (all []workload) {
	text, err := files.ReadFile("workloads/" + name + ".yaml")
	if err == nil {
		in := yaml.NewDecoder(bytes.NewReader(text))
		in.KnownFields(true)
		err = in.Decode(&all) //nolint:musttag // the keys are the names of the fields
	}
	if err != nil {
		panic(fmt.Sprintf("workload: %s.yaml: %v", name, err))
	}
	return all
}

// config returns the configuration of a workload.
func (w workload) config() sim.Config {
	cfg := sim.Config{
		Definition: parsed("document: {dsl: '1.0.3', namespace: test, name: workload, version: '1.0.0'}\n" + w.Document),
		ID:         "x", Processes: cmp.Or(w.Processes, 2), Executors: 2, Executions: w.Executions, Tenants: w.Tenants, Twins: w.Twins, MaxTurns: cmp.Or(w.Turns, 100_000),
		Scripted: sim.Scripted{CrashURL: w.CrashURL, CrashType: w.CrashType, Retention: w.Retention},
	}
	if w.Input != "" {
		cfg.Input = json.RawMessage(w.Input)
	}
	for _, text := range w.With {
		cfg.With = append(cfg.With, parsed(text))
	}
	if w.Tenants > 1 {
		cfg = cfg.WithForeignDefinitions()
	}
	var err error
	if cfg.Mocks, err = mock.Parse("mocks.yaml", []byte(w.Mocks)); err != nil && w.Mocks != "" {
		panic(fmt.Sprintf("workload: mocks of workload %q: %v", w.Name, err))
	}
	for i, a := range w.Acts {
		next := sim.Arrival{At: sim.Epoch().Add(a.After)}
		switch {
		case a.Moved > 0:
			next.Do = a.move
		case a.Replay:
			next.Do = a.replay
		default:
			next.Event = event.Event{
				ID: fmt.Sprintf("%s/act/%d", a.Execution, i), Source: decide.Prefix + "cli", Type: a.Type, Time: next.At,
				Tenant: "default", Execution: a.Execution, Task: a.Task, Data: a.data(),
			}
		}
		cfg.Scripted.Arrivals = append(cfg.Scripted.Arrivals, next)
	}
	if w.Breakers != nil {
		cfg.Scripted.Breakers = func() *breaker.Set {
			b, err := breaker.New(*w.Breakers)
			if err != nil {
				panic(fmt.Sprintf("workload: workload %q: %v", w.Name, err))
			}
			return b
		}
	}
	return cfg
}

// plan returns the faults of a workload.
func (w workload) plan() sim.Plan {
	kinds := w.Kinds
	if kinds == nil {
		kinds = []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Duplicate, sim.Delay, sim.Clock, sim.StopRequested}
	}
	return sim.Plan{Kinds: kinds, Rate: cmp.Or(w.Rate, 60), Most: cmp.Or(w.Most, 8)}
}

// wrong returns the violations of a trial and the executions that did not end as
// expected.
func (w workload) wrong(got *sim.Trial) (out []string) {
	deadLetters := slices.Clone(w.DeadLetters)
	if n := w.crashes(got); w.CrashURL != "" && n != 5 {
		out = append(out, fmt.Sprintf("%d processes crashed, want 5", n))
	}
	for _, v := range got.Broken {
		i := slices.IndexFunc(deadLetters, func(text string) bool { return v.DeadLetter() && strings.HasPrefix(v.Detail, text) })
		if i >= 0 {
			deadLetters = slices.Delete(deadLetters, i, i+1)
			continue
		}
		out = append(out, v.Error())
	}
	for _, text := range deadLetters {
		out = append(out, "not dead-lettered: "+text)
	}
	out = append(out, w.measured(got)...)
	if w.Fires != nil && !slices.Equal(w.Fires, got.StrayTimers) {
		out = append(out, fmt.Sprintf("the stray timers %q fired, want %q", got.StrayTimers, w.Fires))
	}
	ends := got.Ends
	if w.Retention != nil { // children may have been removed or not
		ends = slices.DeleteFunc(slices.Clone(ends), func(end sim.End) bool { return end.Child() })
	}
	for _, end := range ends {
		want, ok := w.Want[end.ID]
		text := string(end.Status) + " " + string(end.Output)
		if !ok || !strings.HasPrefix(strings.TrimSpace(text), want) {
			out = append(out, fmt.Sprintf("%s is %s %v, want %q", end.ID, text, end.Error, want))
		}
	}
	if len(ends) != len(w.Want) {
		out = append(out, fmt.Sprintf("%d executions, want %d", len(ends), len(w.Want)))
	}
	return out
}

// crashes returns how many processes called the URL that crashes them.
func (w workload) crashes(got *sim.Trial) (n int) {
	for _, r := range got.Reached {
		if r.URL == w.CrashURL {
			n++
		}
	}
	return n
}

// measured returns wrong durations and wrong numbers of calls.
func (w workload) measured(got *sim.Trial) (out []string) {
	plain := len(got.Injected) == 0
	if took := got.Lasted(); plain && w.Lasts > 0 && took != w.Lasts {
		out = append(out, fmt.Sprintf("it took %v, want %v", took, w.Lasts))
	}
	if n := len(got.Reached); plain && w.Calls > 0 && n != w.Calls {
		out = append(out, fmt.Sprintf("%d calls, want %d", n, w.Calls))
	}
	for d, n := range got.CallCounts {
		if w.Once && n > 1 {
			out = append(out, fmt.Sprintf("%s was called %d times", d.Task, n))
		}
	}
	return out
}
