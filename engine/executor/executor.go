// Package executor is the service that performs workflow tasks that call other systems, and reports
// their results.
package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/store"
)

// Service is one executor. It performs one task at a time, or computes several that need
// nothing from outside. An Inbox is shared by as many executors as tasks may run concurrently.
type Service struct {
	inbox  *Inbox
	caller *Caller
	limits decide.Limits
}

// New returns an executor that reads from an inbox.
func New(inbox *Inbox, caller *Caller, limits decide.Limits) *Service {
	inbox.executors++
	return &Service{inbox: inbox, caller: caller, limits: limits}
}

// Step performs one task, or computes several, if there are any. It returns when to call it
// again: immediately for a time in the past, and for the zero time only when something is
// written to a stream.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	j, wake, err := s.inbox.take(ctx)
	switch {
	case err != nil || j == nil:
		return wake, err
	case j.computes:
		return wake, s.compute(ctx, j)
	default:
		return wake, s.single(ctx, j)
	}
}

// single performs one task.
func (s *Service) single(ctx context.Context, j *job) error {
	// A task ends early if its request is lost to another executor.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.inbox.began(j, cancel)
	defer func() { j.reserved.Release() }()
	j.err = s.inbox.consumer.Handle(ctx, j.message, func(ctx context.Context, _ store.Message) error { return s.handle(ctx, j) })
	if errors.Is(context.Cause(ctx), errLost) {
		j.unfinished, j.err = j.err != nil, nil
	}
	err := j.err
	s.inbox.done(j)
	return err
}

// handle handles one request. An error that it returns is one of Redis, after which the request
// must be handled again; errors of the request itself are settled here.
func (s *Service) handle(ctx context.Context, j *job) (err error) {
	if j.result == nil { // a task that was already performed is only reported again
		if err = delivery.Poison(j.message); err == nil {
			err = s.perform(ctx, j)
		}
		if err != nil {
			return s.inbox.consumer.Reject(ctx, j.message, err, event.TaskDead)
		}
	}
	return s.inbox.out.send(ctx, []*job{j})
}

// perform performs a task. An error concerns the message; the task's own failure is part of the
// result.
func (s *Service) perform(ctx context.Context, j *job) (err error) {
	m := j.message
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("perform %s: %v", m.Event.Task, r)
		}
	}()
	if m.Err != nil {
		return delivery.As(delivery.Permanent, m.Err)
	}
	var r event.Requested
	if err := decide.DecodeData(m.Event, &r); err != nil {
		return delivery.As(delivery.Permanent, err)
	}
	env, err := s.inbox.definitions.Hash(ctx, m.Tenant, m.Event.Workflow, m.Event.Ext[event.DefinitionAttribute])
	if err != nil {
		return fmt.Errorf("definition of %s: %w", m.Event.Workflow, err)
	}
	c, err := s.result(ctx, env, j, r)
	if err != nil {
		return err
	}
	seen := delivery.Activity{What: delivery.Performed, Message: m, Task: c.TaskType}
	if c.Error != nil {
		seen.Err = c.Error
	}
	s.inbox.consumer.Report(seen)
	j.result = &c
	return nil
}

// result performs a task, or computes it if it needs nothing from outside.
func (s *Service) result(ctx context.Context, env *decide.Env, j *job, r event.Requested) (event.Completed, error) {
	m, run := j.message, event.ParseRun(r.TaskID)
	task := env.Definition().Task(run.Ref)
	if task == nil {
		return event.Completed{}, delivery.As(delivery.Permanent, fmt.Errorf("workflow %s has no task %s", m.Event.Workflow, run.Ref))
	}
	scope, err := env.RequestScope(task, r, m.Event.Time)
	if err != nil {
		return event.Completed{}, err
	}
	if c, ok := env.Compute(task, scope, m.Event.Execution, r.TaskID); ok {
		return c, nil
	}
	if j.computes {
		return event.Completed{}, fmt.Errorf("the request of %s is about %s", m.Event.Task, r.TaskID)
	}
	c := event.Completed{TaskID: r.TaskID, TaskName: task.Name, TaskType: string(task.Kind)}
	from := call.Origin{Tenant: m.Tenant, Execution: m.Event.Execution, Nonce: r.Nonce, Run: run, Now: m.Read}
	j.reserved = s.caller.Memory.Reserve(m.Tenant)
	defer j.reserved.Decoded()
	output, made, err := s.caller.Call(ctx, task, scope, from, j.reserved)
	c.Call = made
	if err == nil {
		err = s.limits.Output(output)
	}
	if err == nil {
		c.Success, c.Output = true, canonical.Encode(output)
		return c, nil
	}
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	c.Error, err = env.ProblemOf(err, task.Ref)
	return c, err
}
