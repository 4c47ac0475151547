// Package server answers clients of the scheduler over gRPC: the service of schedulerpb, health
// checks and reflection, with TLS and tokens.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

// Options configures a Server.
type Options struct {
	TLS        *Certificate  // nil: connections are not encrypted
	Tokens     *Tokens       // nil: all clients may call
	Reflection bool          // clients may ask for the service's description
	Timeout    time.Duration // of a call; ScheduleMany has more, by 1 % for each event
	Streams    int           // calls that a connection may have open; 1 to 10000
	Log        *slog.Logger
	// Check returns why events cannot be scheduled now: schedule.ErrFull if only new events cannot be.
	// It is called every CheckEvery or, while it returns nil and the server gets no calls, every fifteenth time.
	Check      func(context.Context) error
	CheckEvery time.Duration
	// Observe, if set, receives each call when it ends.
	Observe func(Call)
}

// DefaultOptions returns the options of an ordinary deployment, except Log and Check.
func DefaultOptions() Options {
	return Options{Reflection: true, Timeout: 10 * time.Second, Streams: 1000, CheckEvery: 2 * time.Second}
}

// MostBytes is the maximum size of a message that the server accepts.
const MostBytes = 1 << 20

// Call describes a finished call, for metrics.
type Call struct {
	Method string // "/scheduler.v1.SchedulerService/Schedule"
	Code   codes.Code
	Took   time.Duration
}

// Server is the gRPC server of one process. New creates it, and Run runs it once.
type Server struct {
	opts       Options
	grpc       *grpc.Server
	health     *health.Server
	full       atomic.Bool     // new events are refused
	called     atomic.Bool     // a client has called since the last tick
	skips      int             // ticks that go by without Check unless a client calls; only check uses it
	badTLS     string          // what was logged about the certificate; only check uses it
	badTokens  string          // the same about the tokens
	streams    context.Context //nolint:containedctx // ends the streams of a server that stops; no call waits for it
	endStreams context.CancelFunc
}

// New returns a Server that answers from an API.
func New(api *scheduler.API, opts Options) *Server {
	s := &Server{opts: opts, health: health.NewServer()}
	s.streams, s.endStreams = context.WithCancel(context.Background())
	all := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MostBytes),
		grpc.MaxConcurrentStreams(uint32(opts.Streams)),
		grpc.ConnectionTimeout(10 * time.Second),
		// A client that pings more often than its default allows is disconnected; a client that has
		// vanished is noticed.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	}
	if opts.TLS != nil {
		all = append(all, grpc.Creds(credentials.NewTLS(opts.TLS.config())))
	}
	s.grpc = grpc.NewServer(all...)
	combiner := &combiner{api: api, timeout: opts.Timeout, running: make(chan struct{}, 1)}
	schedulerpb.RegisterSchedulerServiceServer(s.grpc, &service{api: api, combiner: combiner, full: &s.full})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if opts.Reflection {
		reflection.Register(s.grpc)
	}
	s.serving(false)
	return s
}

// serving sets the reply to health checks.
func (s *Server) serving(well bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if well {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(schedulerpb.SchedulerService_ServiceDesc.ServiceName, status)
}

// grace is how long a stopping server waits for calls in progress.
const grace = 10 * time.Second

// Run answers calls on a listener until ctx ends. Then health checks return NOT_SERVING, calls in
// progress finish, and Run returns nil.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	s.check(ctx)
	ended := make(chan struct{})
	go s.watch(ctx, ended)
	go func() {
		defer close(ended)
		<-ctx.Done()
		s.stop()
	}()
	err := s.grpc.Serve(l)
	if ctx.Err() == nil {
		return fmt.Errorf("answer gRPC on %s: %w", l.Addr(), err)
	}
	<-ended
	return nil
}

// stop ends the server gracefully.
func (s *Server) stop() {
	s.health.Shutdown()
	time.AfterFunc(100*time.Millisecond, s.endStreams) // watchers of the health are informed before that
	hard := time.AfterFunc(grace, s.grpc.Stop)
	defer hard.Stop()
	s.grpc.GracefulStop()
}

// watch checks whether events can be scheduled, until ctx ends.
func (s *Server) watch(ctx context.Context, ended <-chan struct{}) {
	tick := time.NewTicker(s.opts.CheckEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ended:
			return
		case <-tick.C:
			s.check(ctx)
		}
	}
}

// isNew reports whether an error differs from the last one, and notes it.
func isNew(last *string, err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	before := *last
	*last = text
	return text != "" && text != before
}

// check sets the health of the service, and rereads its tokens and its certificate.
func (s *Server) check(ctx context.Context) {
	if err := s.opts.TLS.Check(time.Now()); isNew(&s.badTLS, err) {
		s.opts.Log.ErrorContext(ctx, "certificate of the gRPC server", "err", err)
	}
	if err := s.opts.Tokens.Reload(); isNew(&s.badTokens, err) {
		s.opts.Log.ErrorContext(ctx, "tokens not read: the former ones stay valid", "err", err)
	}
	if called := s.called.Swap(false); !called && s.skips > 0 {
		s.skips--
		return
	}
	patience, cancel := context.WithTimeout(ctx, s.opts.CheckEvery)
	defer cancel()
	err := s.opts.Check(patience)
	if ctx.Err() != nil {
		return
	}
	if s.skips = 0; err == nil {
		s.skips = 14
	}
	full := errors.Is(err, schedule.ErrFull)
	if was := s.full.Swap(full); full && !was {
		s.opts.Log.WarnContext(ctx, "new events are refused", "err", err)
	}
	away := err != nil && !full
	reply, _ := s.health.Check(ctx, &healthpb.HealthCheckRequest{})
	switch was := reply.GetStatus() != healthpb.HealthCheckResponse_SERVING; {
	case away && !was:
		s.opts.Log.ErrorContext(ctx, "not serving", "err", err)
	case !away && was:
		s.opts.Log.InfoContext(ctx, "serving gRPC")
	}
	s.serving(!away)
}
