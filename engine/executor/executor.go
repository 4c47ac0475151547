// Package executor is the service that performs what workflows ask of the world
// outside, and reports how it went.
package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/decide"
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
	Caller     *Caller
	Attempts   int           // deliveries of a request before it is given up
	RetryDelay time.Duration // before the second delivery; it grows with the attempts
	Limit      int           // bytes of a task's output as JSON
}

// New is an executor of what arrives in an inbox.
func New(st *store.Store, lib *library.Library, inbox *Inbox, opts Options) (*Service, error) {
	if opts.Caller == nil {
		return nil, errors.New("the executor has no caller")
	}
	if opts.Attempts < 1 {
		return nil, fmt.Errorf("attempts is %d, want 1 or more", opts.Attempts)
	}
	return &Service{store: st, library: lib, inbox: inbox, opts: opts}, nil
}

// Step performs one task, if there is one. It says when it wants to be called
// again: at once if that is past, never (before something is written to a
// stream) if it is zero.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	m, wake, err := s.inbox.take(ctx)
	if err != nil || m == nil {
		return wake, err
	}
	defer func() {
		if err != nil {
			s.inbox.giveBack(*m)
		} else {
			s.inbox.done(*m)
		}
	}()
	return wake, s.handle(ctx, *m)
}

// handle takes one request through. An error is Redis', and the request is to be
// handled again; what is wrong with the request itself is dealt with here.
func (s *Service) handle(ctx context.Context, m store.Message) error {
	reply, err := s.perform(ctx, m)
	if err == nil {
		// The deed is done: report it even if we were told to stop meanwhile.
		_, err = s.store.Reply(context.WithoutCancel(ctx), m, reply)
		return err
	}
	if ctx.Err() != nil || store.Temporary(err) {
		return err
	}
	return s.reject(ctx, m, err)
}

// reject delivers a request again later, or gives it up, which fails the task.
func (s *Service) reject(ctx context.Context, m store.Message, cause error) error {
	attempt := m.Attempt + 1
	if attempt < s.opts.Attempts {
		_, err := s.store.Retry(ctx, m, time.Duration(attempt)*s.opts.RetryDelay)
		return err
	}
	dead := event.Dead{Reason: cause.Error(), Attempts: attempt, Service: s.inbox.reader.Group}
	_, err := s.store.Bury(ctx, m, dead, []event.Event{m.Obituary(event.TaskDead, dead)})
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
		return reply, m.Err
	}
	var r event.Requested
	if err := decide.DecodeData(m.Event, &r); err != nil {
		return reply, err
	}
	env, err := s.library.Hash(ctx, m.Tenant, m.Event.Workflow, m.Event.Ext[event.DefinitionAttribute])
	if err != nil {
		return reply, fmt.Errorf("definition of %s: %w", m.Event.Workflow, err)
	}
	c, err := s.result(ctx, env, m, r)
	if err != nil {
		return reply, err
	}
	now, err := s.store.Now(ctx)
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

// Source is the source of an executor's events.
const Source = decide.Prefix + "executor"

// result performs a task, or computes it where it needs nothing from outside.
func (s *Service) result(ctx context.Context, env *decide.Env, m store.Message, r event.Requested) (event.Completed, error) {
	run := event.ParseRun(r.TaskID)
	task := env.Definition().Task(run.Ref)
	if task == nil {
		return event.Completed{}, fmt.Errorf("workflow %s has no task %s", m.Event.Workflow, run.Ref)
	}
	scope, err := env.RequestScope(task, r, m.Event.Time)
	if err != nil {
		return event.Completed{}, err
	}
	if c, ok := env.Compute(task, scope, m.Event.Execution, r.TaskID); ok {
		return c, nil
	}
	c := event.Completed{TaskID: r.TaskID, TaskName: task.Name, TaskType: string(task.Kind)}
	output, err := s.opts.Caller.Call(ctx, task, scope, Origin{Execution: m.Event.Execution, Run: run})
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
