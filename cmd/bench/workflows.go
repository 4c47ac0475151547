package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/dsl"
)

// workflow is a workflow whose tasks do nothing.
type workflow struct {
	name  string // in the results
	text  string
	tasks int
	pure  bool // the worker computes the tasks, which do not go through the stream
}

// steps returns the number of messages of an execution whose tasks go through the stream: its start,
// and the request and the result of each task. Each message is read, handled in a script and
// acknowledged; a script can handle several messages of one execution.
func (w workflow) steps() int { return 1 + 2*w.tasks }

// document returns a complete document with these tasks.
func document(name, tasks string) string {
	return fmt.Sprintf("document: {dsl: '1.0.3', namespace: %s, name: %s, version: '1.0.0'}\ndo:\n%s", namespace, name, tasks)
}

func one() workflow {
	return workflow{name: "one task", tasks: 1, text: document("one", "  - t0: {set: {n: 1}}\n")}
}

// ten returns a workflow of ten tasks in sequence.
func ten() workflow {
	var tasks strings.Builder
	for i := range 10 {
		fmt.Fprintf(&tasks, "  - t%d: {set: {n: %d}}\n", i, i)
	}
	return workflow{name: "ten in a row", tasks: 10, text: document("ten", tasks.String())}
}

// parallel returns a workflow of ten tasks in parallel.
func parallel() workflow {
	var tasks strings.Builder
	tasks.WriteString("  - all:\n      fork:\n        branches:\n")
	for i := range 10 {
		fmt.Fprintf(&tasks, "          - t%d: {set: {n: %d}}\n", i, i)
	}
	return workflow{name: "ten in parallel", tasks: 10, text: document("parallel", tasks.String())}
}

// pure returns a loop that the worker computes in few commits.
func pure() workflow {
	const iterations = 1000
	return workflow{name: "a loop in the worker", tasks: iterations, pure: true, text: document("pure", fmt.Sprintf(`
  - loop:
      for: {in: "[range(%d)]"}
      do:
        - count: {set: {n: "${ (.n // 0) + 1 }"}}
`, iterations))}
}

// workflows measures how many workflows and steps the services process.
type workflows struct{ *scenarioRun }

// steps measures workflows of tasks that do nothing.
func (wf workflows) steps(ctx context.Context) error {
	bare, err := wf.limits().measure(ctx, "the step script", wf.opts.size(10_000, 300), limits.rawStep)
	if err != nil {
		return err
	}
	const script = "a script of HGET, HSET, 2 XADD, XACK for each step"
	for _, w := range []workflow{one(), ten(), parallel()} {
		got, err := wf.work(ctx, w, wf.opts.size(300, 20))
		if got.n == 0 {
			return err
		}
		steps, tasks := float64(w.steps()), float64(w.tasks)
		wf.add(Result{Name: w.name + ": workflows", Unit: "workflows/s", Rate: got.rate(), Count: got.n}.beside(bare/steps, script))
		wf.add(Result{Name: w.name + ": tasks", Unit: "tasks/s", Rate: got.rate() * tasks, Count: got.n * w.tasks}.beside(bare*tasks/steps, script))
		wf.add(Result{
			Name: w.name + ": steps", Unit: "steps/s", Rate: got.rate() * steps, Count: got.n * w.steps(), Cost: got.cost,
		}.beside(bare, script))
		if err != nil {
			return err
		}
	}
	return wf.loop(ctx)
}

// loop measures tasks that the worker computes, and the interpreter without Redis.
func (wf workflows) loop(ctx context.Context) error {
	w := pure()
	baseline, err := wf.interpret(ctx, w.text)
	if err != nil {
		return err
	}
	got, err := wf.work(ctx, w, wf.opts.size(20, 2))
	if got.n == 0 {
		return err
	}
	wf.add(Result{
		Name: w.name + ": tasks", Unit: "tasks/s", Rate: got.rate() * float64(w.tasks), Count: got.n * w.tasks, Cost: got.cost,
	}.beside(baseline*float64(w.tasks), "the interpreter on one core, without Redis"))
	return err
}

// work measures executions of a workflow that were all started before the services.
func (s *scenarioRun) work(ctx context.Context, w workflow, first int) (drainResult, error) {
	def, _, err := dsl.Parse("bench.yaml", []byte(w.text))
	if err != nil {
		return drainResult{}, err
	}
	of, each := "step", w.steps()
	if w.pure {
		of, each = "task", w.tasks
	}
	return s.drain(ctx, drain{
		measuring: w.name, of: of, each: each, first: first, limit: 100_000,
		start: s.starter(servicesRequest{Workers: true, Executors: true, Remote: !w.pure}),
		fill:  func(ctx context.Context, n int) error { return s.start(ctx, def, n) },
		count: func(ctx context.Context, _ int) (int, error) {
			counts, err := s.store.Counts(ctx, s.tenant)
			if err == nil && counts.Faulted > 0 {
				err = fmt.Errorf("%d executions of %s have faulted", counts.Faulted, w.name)
			}
			return int(counts.Completed), err
		},
	})
}

// starters is the number of concurrent starts.
const starters = 32

// start registers a workflow and starts n executions of it.
func (s *scenarioRun) start(ctx context.Context, def *dsl.Definition, n int) error {
	if err := s.define(ctx, def); err != nil {
		return err
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, starters)
	for k := range errs {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && errs[k] == nil; i = next.Add(1) {
				errs[k] = s.begin(ctx, def, fmt.Sprintf("x%07d", i))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *scenarioRun) define(ctx context.Context, def *dsl.Definition) error {
	_, err := definitions.New(s.store, decide.Options{Limits: decide.DefaultLimits()}).Register(ctx, s.tenant, def)
	return err
}

func (s *scenarioRun) begin(ctx context.Context, def *dsl.Definition, id string) error {
	return engine.StartExecution(ctx, s.store, engine.StartRequest{
		Tenant: s.tenant, ID: id, Namespace: def.Document.Namespace, Name: def.Document.Name, Version: def.Document.Version,
	})
}
