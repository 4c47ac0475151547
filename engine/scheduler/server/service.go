package server

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

// service implements the generated interface, schedulerpb.SchedulerServiceServer, on an API.
type service struct {
	schedulerpb.UnimplementedSchedulerServiceServer

	api      *scheduler.API
	combiner *combiner
	full     *atomic.Bool
}

// Cancel cancels an event.
func (s *service) Cancel(ctx context.Context, r *schedulerpb.CancelRequest) (*schedulerpb.CancelResponse, error) {
	o, err := s.api.Change(ctx, r.GetEventId(), schedule.Change{Kind: schedule.Cancel})
	return &schedulerpb.CancelResponse{Status: statusOf(o), Event: s.event(o.Event, false)}, err
}

// Reschedule moves an event to another time.
func (s *service) Reschedule(ctx context.Context, r *schedulerpb.RescheduleRequest) (*schedulerpb.RescheduleResponse, error) {
	at, after := due(r.GetExecuteAt(), r.GetExecuteTime(), r.GetAfter())
	o, err := s.api.Change(ctx, r.GetEventId(), schedule.Change{Kind: schedule.Move, Due: at, After: after})
	return &schedulerpb.RescheduleResponse{Status: statusOf(o), Event: s.event(o.Event, false)}, err
}

// Replay publishes a dead event once more.
func (s *service) Replay(ctx context.Context, r *schedulerpb.ReplayRequest) (*schedulerpb.ReplayResponse, error) {
	o, err := s.api.Change(ctx, r.GetEventId(), schedule.Change{Kind: schedule.Replay})
	return &schedulerpb.ReplayResponse{Status: statusOf(o), Event: s.event(o.Event, false)}, err
}

// Drop gives up a dead event.
func (s *service) Drop(ctx context.Context, r *schedulerpb.DropRequest) (*schedulerpb.DropResponse, error) {
	o, err := s.api.Change(ctx, r.GetEventId(), schedule.Change{Kind: schedule.Drop})
	return &schedulerpb.DropResponse{Status: statusOf(o), Event: s.event(o.Event, false)}, err
}

// Get returns an event with its payload.
func (s *service) Get(ctx context.Context, r *schedulerpb.GetRequest) (*schedulerpb.GetResponse, error) {
	o, err := s.api.Get(ctx, r.GetEventId())
	return &schedulerpb.GetResponse{Status: statusOf(o), Event: s.event(o.Event, true)}, err
}

// List sends the events that match a filter, a page at a time.
func (s *service) List(r *schedulerpb.ListRequest, to grpc.ServerStreamingServer[schedulerpb.Event]) error {
	const page = 100
	f := schedule.Filter{
		Status: statusNamed(r.GetStatus()), Topic: r.GetTopic(), Cursor: r.GetCursor(),
		DueAfter: timeOf(r.GetDueAfter()), DueBefore: timeOf(r.GetDueBefore()),
	}
	if within := r.GetDueWithin(); within != nil {
		f.DueBefore = s.api.Now().Add(within.AsDuration())
	}
	if r.GetPartition() < 0 {
		return status.Errorf(codes.InvalidArgument, "partition is %d: want 0 or more, or none for all", r.GetPartition())
	}
	if r.GetLimit() < 0 {
		return status.Errorf(codes.InvalidArgument, "limit is %d: want 1 or more, or 0 for all", r.GetLimit())
	}
	if r.GetStatus() != 0 && f.Status == "" {
		return status.Errorf(codes.InvalidArgument, "status is %d: want 1 to %d, or 0 for all", r.GetStatus(), len(schedule.Statuses()))
	}
	if r.Partition != nil {
		partition := int(r.GetPartition())
		f.Partition = &partition
	}
	for left := int(r.GetLimit()); ; {
		if f.Limit = page; r.GetLimit() > 0 {
			f.Limit = min(page, left)
		}
		found, next, err := s.api.List(to.Context(), f)
		if err != nil {
			return err
		}
		for i := range found {
			e := s.event(&found[i], r.GetPayloads())
			if i == len(found)-1 {
				e.Cursor = next
			}
			if err := to.Send(e); err != nil {
				return err
			}
		}
		left -= len(found)
		if next == "" || r.GetLimit() > 0 && left <= 0 {
			return nil
		}
		f.Cursor = next
	}
}

// Partitions returns the partitions, and changes their number.
func (s *service) Partitions(ctx context.Context, r *schedulerpb.PartitionsRequest) (*schedulerpb.PartitionsResponse, error) {
	members, o, err := s.api.Partitions(ctx, int(r.GetFrom()), int(r.GetCount()))
	if err != nil {
		return nil, err
	}
	out := &schedulerpb.PartitionsResponse{
		Status: statusOf(o), Count: int32(members.Count), Processes: members.Processes, Now: stamp(members.Now),
	}
	for _, p := range members.Partitions {
		out.Partitions = append(out.Partitions, int32(p))
	}
	return out, nil
}

// due returns the time or, only if a client gives none, the delay that it requests. Both are zero if it
// gives neither, or a time that is not valid.
func due(seconds int64, at *timestamppb.Timestamp, after *durationpb.Duration) (time.Time, time.Duration) {
	if at == nil && seconds != 0 {
		at = &timestamppb.Timestamp{Seconds: seconds}
	}
	switch n := at.GetNanos(); {
	case at == nil:
		return time.Time{}, after.AsDuration()
	case n < 0 || n >= int32(time.Second):
		return time.Time{}, 0
	default:
		return timeOf(at), 0
	}
}

// timeOf returns a time, zero if there is none.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	const never = 1 << 40 // seconds: far outside of all limits, and within those of time.Time
	return time.Unix(min(max(t.GetSeconds(), -never), never), int64(t.GetNanos())).UTC()
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func statusOf(o schedule.Outcome) *schedulerpb.Status {
	return &schedulerpb.Status{Code: schedulerpb.StatusCode(o.Code), Message: o.Message}
}

// statusNamed returns the state for a number on the wire, "" if there is none.
func statusNamed(s schedulerpb.EventStatus) schedule.Status {
	if all := schedule.Statuses(); s >= 1 && int(s) <= len(all) {
		return all[s-1]
	}
	return ""
}

// event returns an event as clients receive it, or nil if e is nil.
func (s *service) event(e *schedule.Event, payload bool) *schedulerpb.Event {
	if e == nil {
		return nil
	}
	out := &schedulerpb.Event{
		EventId: e.ID, ExecuteTime: stamp(e.Due), Topic: e.Topic, Key: e.RecordKey(), Headers: e.Headers, Tenant: e.Tenant,
		Version: e.Version, Attempts: int32(e.Attempts), LastError: e.Error,
		CreatedTime: stamp(e.Created), UpdatedTime: stamp(e.Updated), FiredTime: stamp(e.Published),
	}
	for i, one := range schedule.Statuses() {
		if one == e.Status {
			out.Status = schedulerpb.EventStatus(i + 1)
		}
	}
	if e.Status == schedule.Scheduled {
		out.NextTime = stamp(e.Next)
	}
	if e.Status.Open() {
		out.DueIn = durationpb.New(e.Due.Sub(s.api.Now()))
	}
	if payload {
		out.Payload = e.Payload
	}
	return out
}
