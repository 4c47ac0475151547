package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"flunq.io/flunq/engine/scheduler/schedulerpb"
	"flunq.io/flunq/engine/scheduler/server"
)

// callers schedule events over gRPC, each sending one request after another.
type callers struct {
	name string
	n    int
	each int // events of a request: 1 by Schedule, more by ScheduleMany
}

// serve answers requests on a listener until ctx ends.
type serve func(ctx context.Context, on net.Listener) error

// requests measures requests over gRPC, with the server and its clients in this process. The
// limit is a server that responds without storing anything.
func (s scheduling) requests(ctx context.Context) error {
	for _, c := range []callers{
		{"Schedule, 1 caller", 1, 1},
		{"Schedule, 32 callers", 32, 1},
		{"Schedule, 256 callers", 256, 1},
		{"ScheduleMany of 100, 8 callers", 8, 100},
	} {
		n, took, err := s.call(ctx, "the limit: "+c.name, c, answer)
		if err != nil {
			return err
		}
		if err := s.stored(ctx, c, perSecond(n, took)); err != nil {
			return err
		}
	}
	return nil
}

// stored measures callers of the scheduler.
func (s scheduling) stored(ctx context.Context, c callers, limit float64) (err error) {
	if err := s.fresh(ctx); err != nil {
		return err
	}
	p, err := s.process(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	opts := server.DefaultOptions()
	opts.Log, opts.Check = slog.New(slog.DiscardHandler), func(context.Context) error { return nil }
	before := s.read(ctx, &p.services)
	n, took, err := s.call(ctx, c.name, c, server.New(p.api, opts).Run)
	if err != nil {
		return err
	}
	after := s.read(ctx, &p.services)
	s.add(Result{Name: c.name, Unit: "events/s", Rate: perSecond(n, took), Count: n, Cost: cost("event", n, before, after, &p.services)}.
		beside(limit, "the same requests, answered without storing"))
	return nil
}

// call lets the callers call a server for the duration of a measurement, and returns the
// number of events.
func (s scheduling) call(ctx context.Context, measuring string, c callers, serve serve) (n int, took time.Duration, err error) {
	s.report(measuring, 0)
	on, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, fmt.Errorf("listen for requests: %w", err)
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serve(serving, on) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	const connections = 8
	clients := make([]schedulerpb.SchedulerServiceClient, min(c.n, connections))
	for i := range clients {
		conn, err := grpc.NewClient(on.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return 0, 0, fmt.Errorf("connect to the server: %w", err)
		}
		defer func() { _ = conn.Close() }()
		clients[i] = schedulerpb.NewSchedulerServiceClient(conn)
		if err := c.request(ctx, clients[i], i*c.each); err != nil { // connects
			return 0, 0, err
		}
	}
	var done atomic.Int64
	errs := make([]error, c.n)
	var calling sync.WaitGroup
	began := time.Now()
	for i := range c.n {
		calling.Go(func() {
			for at := len(clients) + i; errs[i] == nil && time.Since(began) < s.opts.Duration; at += c.n {
				errs[i] = c.request(ctx, clients[i%len(clients)], at*c.each)
				done.Add(int64(c.each))
			}
		})
	}
	calling.Wait()
	return int(done.Load()), time.Since(began), errors.Join(errs...)
}

// request schedules events that begin with the nth.
func (c callers) request(ctx context.Context, to schedulerpb.SchedulerServiceClient, nth int) error {
	requests := make([]*schedulerpb.ScheduleRequest, c.each)
	due, payload := time.Now().Add(time.Hour), make([]byte, payloadBytes)
	for i := range requests {
		requests[i] = &schedulerpb.ScheduleRequest{
			EventId: scheduledID(nth + i), Topic: schedulerTopic, Payload: payload,
			ExecuteTime: timestamppb.New(due.Add(time.Duration(i) * time.Second)),
		}
	}
	var responses []*schedulerpb.ScheduleResponse
	if c.each == 1 {
		response, err := to.Schedule(ctx, requests[0])
		if err != nil {
			return fmt.Errorf("schedule an event: %w", err)
		}
		responses = []*schedulerpb.ScheduleResponse{response}
	} else {
		many, err := to.ScheduleMany(ctx, &schedulerpb.ScheduleManyRequest{Requests: requests})
		if err != nil {
			return fmt.Errorf("schedule events: %w", err)
		}
		responses = many.GetResponses()
	}
	for _, r := range responses {
		if !r.GetCreated() {
			return fmt.Errorf("schedule an event: %s", r.GetStatus())
		}
	}
	return nil
}

// answer runs a server that answers as the scheduler does, without storing anything.
func answer(ctx context.Context, on net.Listener) error {
	bare := grpc.NewServer()
	schedulerpb.RegisterSchedulerServiceServer(bare, answers{})
	defer context.AfterFunc(ctx, bare.Stop)()
	if err := bare.Serve(on); err != nil {
		return fmt.Errorf("answer requests: %w", err)
	}
	return nil
}

// answers are the methods of that server.
type answers struct {
	schedulerpb.UnimplementedSchedulerServiceServer
}

// Schedule implements schedulerpb.SchedulerServiceServer.
func (answers) Schedule(_ context.Context, r *schedulerpb.ScheduleRequest) (*schedulerpb.ScheduleResponse, error) {
	at := r.GetExecuteTime()
	return &schedulerpb.ScheduleResponse{Status: &schedulerpb.Status{}, Created: true, Event: &schedulerpb.Event{
		EventId: r.GetEventId(), Topic: r.GetTopic(), Key: r.GetEventId(), Version: 1, Status: schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED,
		ExecuteTime: at, NextTime: at, CreatedTime: at, UpdatedTime: at,
	}}, nil
}

// ScheduleMany implements schedulerpb.SchedulerServiceServer.
func (a answers) ScheduleMany(ctx context.Context, r *schedulerpb.ScheduleManyRequest) (*schedulerpb.ScheduleManyResponse, error) {
	out := &schedulerpb.ScheduleManyResponse{}
	for _, one := range r.GetRequests() {
		response, err := a.Schedule(ctx, one)
		if err != nil {
			return nil, err
		}
		out.Responses = append(out.Responses, response)
	}
	return out, nil
}
