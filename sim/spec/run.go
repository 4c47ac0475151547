package spec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// Outcome is the result of one run of a case.
type Outcome struct {
	*sim.Result
	Seed     uint64
	Requests []mock.Exchange
	History  []event.Event // of the execution and its child executions, in order
}

// Verdict is the result of a case.
type Verdict struct {
	Case        *Case
	Outcome     *Outcome // of the first run that differs, or else of the last
	Differences []Difference
	Elapsed     time.Duration // virtual, of all runs
}

// maxTasks stops a runaway workflow.
const maxTasks = 200_000

// Run simulates the case with each of its seeds, until a run differs from the expectations.
// base provides what the file does not set. see, if not nil, is called with every run.
func (c *Case) Run(ctx context.Context, base sim.Config, see func(*Outcome)) (*Verdict, error) {
	v := &Verdict{Case: c}
	if v.Differences = c.missingSecrets(); len(v.Differences) > 0 {
		v.Outcome = &Outcome{Result: &sim.Result{}, Seed: c.Seeds[0]}
		return v, nil
	}
	for _, seed := range c.Seeds {
		o, err := c.once(ctx, base, seed)
		if errors.Is(err, sim.ErrClockEnds) {
			o.Result = &sim.Result{}
			v.Outcome, v.Differences = o, []Difference{{Expect: "until", At: c.At, Why: err.Error() + ": end the run before that with until"}}
			return v, nil
		}
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		v.Outcome = o
		v.Elapsed += o.elapsed(c)
		if see != nil {
			see(o)
		}
		if v.Differences = c.Check(o); len(v.Differences) > 0 {
			break
		}
	}
	return v, nil
}

// missingSecrets returns the secrets that the documents use and the case does not set. A
// case that expects an error may test exactly that.
func (c *Case) missingSecrets() (out []Difference) {
	if c.Expect.Status() == decide.Faulted {
		return nil
	}
	for _, d := range c.suite.documents() {
		for _, use := range d.Definition.Secrets {
			if _, ok := c.Secrets[use.Name]; !ok {
				out = append(out, Difference{
					Expect: "secrets", At: c.At, Source: Place{d.File, use.Line, use.Column},
					Why: fmt.Sprintf("unknown secret %q: add it to secrets, in the case or for the whole file", use.Name),
				})
			}
		}
	}
	return out
}

func (c *Case) once(ctx context.Context, cfg sim.Config, seed uint64) (*Outcome, error) {
	o := &Outcome{Seed: seed}
	cfg.Definition = c.suite.Workflow.Definition
	for _, d := range c.suite.With {
		cfg.With = append(cfg.With, d.Definition)
	}
	cfg.Input, cfg.Secrets, cfg.Seed, cfg.Start = c.Input, c.Secrets, seed, c.Start
	cfg.Mocks, cfg.Onward = c.Mocks, c.Network
	cfg.MaxTime, cfg.MaxTasks = c.Until, maxTasks
	cfg.Observe = func(events []event.Event) { o.History = append(o.History, events...) }
	cfg.Exchange = func(x mock.Exchange) { o.Requests = append(o.Requests, x) }
	var err error
	o.Result, err = sim.Run(ctx, cfg)
	return o, err
}

// ended returns the event that ended the execution, nil if it did not end.
func (o *Outcome) ended() *event.Event {
	for _, e := range slices.Backward(o.History) {
		if e.Execution != o.Execution {
			continue
		}
		switch e.Type {
		case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			return &e
		default:
		}
	}
	return nil
}

// elapsed returns how long the execution took, or ran until it was stopped.
func (o *Outcome) elapsed(c *Case) time.Duration {
	if e := o.ended(); e != nil {
		return e.Time.Sub(c.Start)
	}
	if c.Until > 0 {
		return min(c.Until, o.Elapsed)
	}
	return o.Elapsed
}

// status returns how the run ended; a run that has not ended is waiting.
func (o *Outcome) status() decide.Status {
	if o.Status.Ended() {
		return o.Status
	}
	return decide.Waiting
}

// blame returns the reference of the task responsible for how the run ended: the one that
// failed, the one that waits, or the one that ended last.
func (o *Outcome) blame() string {
	if o.Error != nil {
		return o.Error.Instance
	}
	last, open := "", []string{}
	for _, e := range o.History {
		if e.Execution != o.Execution {
			continue
		}
		switch e.Type {
		case event.TaskRequested:
			open = append(open, e.Task)
		case event.TaskCompleted:
			// A skipped task has never begun.
			if i := slices.Index(open, e.Task); i >= 0 {
				last, open = e.Task, slices.Delete(open, i, i+1)
			}
		default:
		}
	}
	if !o.Status.Ended() && len(open) > 0 {
		last = open[len(open)-1]
	}
	return event.ParseRun(last).Ref
}

// emitted returns the events that the workflow and its children emitted, and the tasks
// that did.
func (o *Outcome) emitted() (envelopes []any, tasks []string) {
	envelopes = []any{}
	for _, e := range o.History {
		if e.Type != event.TaskCompleted {
			continue
		}
		var c event.Completed
		if json.Unmarshal(e.Data, &c) != nil || c.TaskType != "emit" || !c.Success || c.Status != "" {
			continue
		}
		v, err := canonical.Decode(c.Output)
		if err != nil {
			continue
		}
		envelopes, tasks = append(envelopes, v), append(tasks, event.ParseRun(e.Task).Ref)
	}
	return envelopes, tasks
}

// Redact replaces the case's secrets with ***.
func (c *Case) Redact(text string) string {
	return store.NewSealer(c.Secrets).Redact(text)
}
