// Package executor is the service that performs what workflows ask of the world
// outside, and reports how it went.
package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/library"
	"flunq.io/flunq/engine/store"
)

// Service is one executor: it performs one task at a time. As many as tasks are
// to run at once share an Inbox.
type Service struct {
	store   *store.Store
	library *library.Library
	inbox   *Inbox
	opts    Options
}

// Options of a Service.
type Options struct {
	Caller *Caller
	Limit  int // bytes of a task's output as JSON
}

// New is an executor of what arrives in an inbox.
func New(st *store.Store, lib *library.Library, inbox *Inbox, opts Options) (*Service, error) {
	if opts.Caller == nil {
		return nil, errors.New("the executor has no caller")
	}
	inbox.size++
	return &Service{store: st, library: lib, inbox: inbox, opts: opts}, nil
}

// Step performs one task, if there is one. It says when it wants to be called
// again: at once if that is past, never (before something is written to a
// stream) if it is zero.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	j, wake, err := s.inbox.take(ctx)
	if err != nil || j == nil {
		return wake, err
	}
	// What was begun ends early when the request is another's meanwhile.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.inbox.begun(j, cancel)
	err = s.inbox.desk.Handle(ctx, j.message, func(ctx context.Context, _ store.Message) error { return s.handle(ctx, j) })
	if errors.Is(context.Cause(ctx), errLost) {
		s.inbox.done(j, nil)
		return wake, nil
	}
	s.inbox.done(j, err)
	return wake, err
}

// handle takes one request through. An error is Redis', and the request is to be
// handled again; what is wrong with the request itself is dealt with here.
func (s *Service) handle(ctx context.Context, j *job) (err error) {
	m := j.message
	if j.reply == nil {
		var reply event.Event
		if err = delivery.Poison(m); err == nil {
			reply, err = s.perform(ctx, m)
		}
		if err != nil {
			return s.inbox.desk.Reject(ctx, m, err, event.TaskDead)
		}
		j.reply = &reply
	}
	// The deed is done: report it even if we were told to stop meanwhile, and
	// report it again, without doing it again, if Redis cannot take it now.
	_, err = s.store.Reply(context.WithoutCancel(ctx), m, *j.reply)
	return err
}

// perform carries a task out. An error is one of the delivery: the task's own
// failure is part of the result.
func (s *Service) perform(ctx context.Context, m store.Message) (reply event.Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("perform %s: %v", m.Event.Task, r)
		}
	}()
	if m.Err != nil {
		return reply, delivery.As(delivery.Permanent, m.Err)
	}
	var r event.Requested
	if err := decide.DecodeData(m.Event, &r); err != nil {
		return reply, delivery.As(delivery.Permanent, err)
	}
	env, err := s.library.Hash(ctx, m.Tenant, m.Event.Workflow, m.Event.Ext[event.DefinitionAttribute])
	if err != nil {
		return reply, fmt.Errorf("definition of %s: %w", m.Event.Workflow, err)
	}
	c, err := s.result(ctx, env, m, r)
	if err != nil {
		return reply, err
	}
	told := delivery.Activity{What: delivery.Performed, Message: m, Task: c.TaskType}
	if c.Error != nil {
		told.Err = c.Error
	}
	s.inbox.desk.Tell(told)
	// Whatever has been done is reported, even if we were told to stop meanwhile.
	now, err := s.now(ctx, m)
	if err != nil {
		return reply, err
	}
	c.DurationMS = now.Sub(m.Read).Milliseconds()
	return event.Event{
		ID: m.Event.ID + "/done", Source: Source, Type: event.TaskCompleted, Time: now,
		Tenant: m.Tenant, Workflow: m.Event.Workflow, Execution: m.Event.Execution, Task: m.Event.Task,
		Data: event.Encode(c),
	}, nil
}

// now is Redis' time after a task, and that before it if Redis does not answer: what
// was done is not done again for want of a time.
func (s *Service) now(ctx context.Context, m store.Message) (time.Time, error) {
	now, err := s.store.Now(context.WithoutCancel(ctx))
	if err != nil && !m.Read.IsZero() {
		return m.Read, nil
	}
	return now, err
}

// Source is the source of an executor's events.
const Source = decide.Prefix + "executor"

// result performs a task, or computes it where it needs nothing from outside.
func (s *Service) result(ctx context.Context, env *decide.Env, m store.Message, r event.Requested) (event.Completed, error) {
	run := event.ParseRun(r.TaskID)
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
	c := event.Completed{TaskID: r.TaskID, TaskName: task.Name, TaskType: string(task.Kind)}
	output, err := s.opts.Caller.Call(ctx, task, scope, Origin{Execution: m.Event.Execution, Run: run, Now: m.Read})
	if err == nil && expr.Size(output) > s.opts.Limit {
		err = event.NewProblem(event.Runtime, fmt.Sprintf("the output is larger than %d bytes (limit Data)", s.opts.Limit))
	}
	if err == nil {
		c.Success, c.Output = true, expr.Encode(output)
		return c, nil
	}
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	c.Error, err = env.Blame(err, task.Ref)
	return c, err
}
