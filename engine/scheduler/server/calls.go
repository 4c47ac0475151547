package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

// unary handles a call with one response.
func (s *Server) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	defer s.ended(ctx, info.FullMethod, time.Now(), &err)
	if err := s.admit(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	limit := s.opts.Timeout
	if many, ok := request.(*schedulerpb.ScheduleManyRequest); ok {
		limit += limit * time.Duration(len(many.GetRequests())) / 100
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if response, err = handle(ctx, request); err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return response, err
}

// stream handles a call with a stream of responses. It ends when the server stops.
func (s *Server) stream(service any, to grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer s.ended(to.Context(), info.FullMethod, time.Now(), &err)
	if err := s.admit(to.Context(), info.FullMethod); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	defer context.AfterFunc(s.streams, cancel)()
	err = handle(service, endingStream{to, ctx})
	if err != nil && s.streams.Err() != nil {
		return status.Error(codes.Unavailable, "the server stops: go on with another one")
	}
	return err
}

// endingStream is a stream whose context ends when the server stops.
type endingStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // grpc.ServerStream is made this way
}

// Context implements grpc.ServerStream.
func (e endingStream) Context() context.Context { return e.ctx }

// ended converts the error of a call to its gRPC status and reports the call. A panic ends only that
// call.
func (s *Server) ended(ctx context.Context, method string, began time.Time, err *error) {
	if p := recover(); p != nil {
		s.opts.Log.ErrorContext(ctx, "a call panicked", "method", method, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the server has failed")
	}
	if *err != nil {
		*err = s.publicError(ctx, method, *err)
	}
	s.called.Store(true)
	if s.opts.Observe != nil {
		s.opts.Observe(Call{Method: method, Code: status.Code(*err), Took: time.Since(began)})
	}
}

// publicError returns the status that a client receives for an error. The store's messages may
// contain addresses, which clients must not see.
func (s *Server) publicError(ctx context.Context, method string, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, errPanic) {
		s.opts.Log.ErrorContext(ctx, "a call panicked", "method", method, "err", err)
		return status.Error(codes.Internal, "the server has failed")
	}
	s.opts.Log.DebugContext(ctx, "call failed", "method", method, "err", err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "not answered in time: it may have been done, and may be repeated")
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the client has gone")
	case errors.Is(err, schedule.ErrCursor):
		return status.Error(codes.InvalidArgument, "cursor: want the cursor of a listed event")
	case errors.Is(err, schedule.ErrFull):
		return status.Error(codes.ResourceExhausted, schedule.ErrFull.Error())
	default:
		return status.Error(codes.Unavailable, schedule.StoreUnavailable)
	}
}

// admit returns an error unless a client may call a method. Health checks need no token.
func (s *Server) admit(ctx context.Context, method string) error {
	if s.opts.Tokens == nil || strings.HasPrefix(method, "/grpc.health.v1.Health/") {
		return nil
	}
	for _, given := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		scheme, token, _ := strings.Cut(given, " ")
		if strings.EqualFold(scheme, "bearer") && s.opts.Tokens.Allow(token) {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "want the metadata authorization: Bearer TOKEN with a token that the server knows")
}
