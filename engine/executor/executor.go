// Package executor is the service that performs workflow tasks that call other systems, and reports
// their results. With engine.Options.Remote it also performs those that only compute. The
// documentation of package engine follows a task through it.
package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/executor/openapi"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/store"
)

// Service is one executor. It performs one task at a time, or computes several that need
// nothing from outside. An Inbox is shared by as many executors as tasks may run concurrently.
type Service struct {
	inbox  *Inbox
	caller *Caller
	limits decide.Limits
	failed bool // its last read, because Redis is down
}

// New returns an executor that reads from an inbox.
func New(inbox *Inbox, caller *Caller, limits decide.Limits) *Service {
	inbox.executors++
	return &Service{inbox: inbox, caller: caller, limits: limits}
}

// Step performs one task, or computes several, if there are any. It returns when to call it
// again: immediately for a time in the past, and for the zero time only when something is
// written to a stream. It returns only errors of Redis, after which the request is handled again; errors
// of the request itself are settled here.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	j, wake, err := s.inbox.take(ctx, &s.failed)
	if err != nil || j == nil {
		return wake, err
	}
	if j.computes {
		return wake, s.compute(ctx, j)
	}
	// A task ends early if its request is lost to another executor.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.inbox.began(j, cancel)
	defer func() { j.reserved.Release() }()
	j.err = s.inbox.consumer.Handle(ctx, []store.Message{j.message}, func() error {
		if j.result == nil { // otherwise it was performed, but not reported
			if err := s.perform(ctx, j); err != nil {
				return s.inbox.consumer.Reject(ctx, j.message, err, event.TaskDead)
			}
		}
		return s.inbox.out.send(ctx, []*job{j})
	})
	if errors.Is(context.Cause(ctx), errLost) {
		j.unfinished, j.err = j.err != nil, nil
	}
	err = j.err
	s.inbox.done(j)
	return wake, err
}

// compute performs tasks that need nothing from outside, one after another, and reports them
// together. Tasks with an error are then handled one by one.
func (s *Service) compute(ctx context.Context, j *job) error {
	var batch, failed []*job
	data := 0
	for ; j != nil; j = s.inbox.another(j, len(batch), data) {
		s.inbox.consumer.Report(delivery.Activity{What: delivery.Began, Message: j.message})
		if j.err = s.perform(ctx, j); j.err != nil {
			failed = append(failed, j)
			continue
		}
		// Computing takes almost no time, so the task ends at the time at which its request was read, but
		// never before it was requested.
		at := j.message.Read
		if asked := j.message.Event.Time; at.Before(asked) {
			at = asked
		}
		j.report(at)
		batch = append(batch, j)
		data += len(j.reply.Data)
	}
	err := s.inbox.out.send(ctx, batch)
	all := slices.Concat(batch, failed)
	for _, j := range all {
		activity := delivery.Activity{What: delivery.Done, Message: j.message}
		if j.err != nil {
			activity.What, activity.Err = delivery.Broken, j.err
		}
		s.inbox.consumer.Report(activity)
	}
	s.inbox.done(all...)
	return err
}

// perform performs a task, or computes it if it needs nothing from outside. An error concerns the
// message; the task's own failure is part of the result.
func (s *Service) perform(ctx context.Context, j *job) (err error) {
	m := j.message
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("perform %s: %v", m.Event.Task, r)
		}
	}()
	if err := cmp.Or(delivery.Poison(m), delivery.As(delivery.Permanent, m.Err)); err != nil {
		return err
	}
	var r event.Requested
	if err := decide.DecodeData(m.Event, &r); err != nil {
		return delivery.As(delivery.Permanent, err)
	}
	env, err := s.inbox.definitions.Hash(ctx, m.Tenant, m.Event.Workflow, m.Event.Ext[event.DefinitionAttribute])
	if err != nil {
		return fmt.Errorf("definition of %s: %w", m.Event.Workflow, err)
	}
	run := event.ParseRun(r.TaskID)
	task := env.Definition().Task(run.Ref)
	if task == nil {
		return delivery.As(delivery.Permanent, fmt.Errorf("workflow %s has no task %s", m.Event.Workflow, run.Ref))
	}
	scope, err := env.RequestScope(task, r, m.Event.Time)
	if err != nil {
		return err
	}
	c, computed := env.Compute(task, scope, m.Event.Execution, r.TaskID)
	switch {
	case computed:
	case j.computes:
		return fmt.Errorf("the request of %s is about %s", m.Event.Task, r.TaskID)
	default:
		c = event.Completed{TaskID: r.TaskID, TaskName: task.Name, TaskType: string(task.Kind)}
		from := call.Origin{Tenant: m.Tenant, Execution: m.Event.Execution, Nonce: r.Nonce, Run: run, Now: m.Read}
		if err := s.call(ctx, j, env, task, scope, from, &c); err != nil {
			return err
		}
	}
	seen := delivery.Activity{What: delivery.Performed, Message: m, Task: c.TaskType}
	if c.Error != nil {
		seen.Err = c.Error
	}
	s.inbox.consumer.Report(seen)
	j.result = &c
	return nil
}

// call performs a call task and completes c with its result.
func (s *Service) call(ctx context.Context, j *job, env *decide.Env, task *dsl.Task, scope *expr.Scope, from call.Origin, c *event.Completed) error {
	j.reserved = s.caller.Memory.Reserve(from.Tenant)
	defer j.reserved.Decoded()
	output, made, err := s.caller.Call(ctx, task, scope, from, j.reserved)
	c.Call = made
	if err == nil {
		err = s.limits.Output(output)
	}
	switch {
	case err == nil:
		c.Success, c.Output = true, canonical.Encode(output)
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		c.Error, err = env.ProblemOf(err, task.Ref)
	}
	return err
}

// Caller performs calls of all kinds.
type Caller struct {
	HTTP   *httpcall.Caller // shared by all executors of a process
	Memory *call.Memory     // shared by all executors of a process; nil: no limit
}

// Call performs a call task and returns its raw output, and the last request that was sent, nil if none
// was. A failure of the call is an *event.Problem (errors.As) that shows no secret; any other error is the
// engine's. The scope is that of the task's definition. ctx and the transport set the deadlines. The caller
// releases the memory in reserved.
func (c *Caller) Call(ctx context.Context, task *dsl.Task, scope *expr.Scope, from call.Origin, reserved *call.Reservation) (output any, made *event.Call, err error) {
	if task.Call == nil {
		return nil, nil, fmt.Errorf("perform %s: not a call", task.Ref)
	}
	run := call.NewRun(scope, from, reserved)
	if kind := c.kind(task.Call); kind != nil {
		output, made, err = kind.Call(ctx, task.Call, run)
	} else {
		err = call.Configuration("call: %s cannot be performed yet", task.Call.Protocol)
	}
	if err != nil {
		return nil, made, run.RedactError(err)
	}
	return output, made, nil
}

// kind returns the Kind that performs a call, or nil for protocols that are not implemented.
func (c *Caller) kind(task *dsl.CallTask) call.Kind {
	switch {
	case task.HTTP != nil:
		return c.HTTP
	case task.OpenAPI != nil:
		return &openapi.Caller{HTTP: c.HTTP}
	default:
		return nil
	}
}
