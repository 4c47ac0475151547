package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"flunq.io/flunq/engine/scheduler/schedulerpb"
	"flunq.io/flunq/engine/scheduler/server"
)

// Every request while the server stops is either answered and stored, or rejected with a code that says
// to try again.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	var mu sync.Mutex
	var acknowledged []string
	loaded := make(chan struct{})
	var wg sync.WaitGroup
	for caller := range 16 {
		c := r.client(t)
		wg.Go(func() {
			for n := caller * 1_000_000; ; n++ {
				_, err := c.Schedule(t.Context(), request(n))
				if err != nil {
					if code := status.Code(err); code != codes.Unavailable {
						t.Errorf("%v, want UNAVAILABLE", err)
					}
					return
				}
				mu.Lock()
				if acknowledged = append(acknowledged, id(n)); len(acknowledged) == 100 {
					close(loaded)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-loaded:
	case <-time.After(10 * time.Second):
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(acknowledged) == 0 {
		t.Error("nothing was acknowledged")
	}
	for _, one := range acknowledged {
		if _, stored := r.events[one]; !stored {
			t.Errorf("%s was acknowledged and is not stored", one)
		}
	}
}

// Ten thousand identical requests create one event, and all succeed.
func TestIdentical(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	one := request(1)
	created := make(chan bool, 10_000)
	var wg sync.WaitGroup
	for range 50 {
		c := r.client(t)
		wg.Go(func() {
			for range 200 {
				out, err := c.Schedule(t.Context(), one)
				if err != nil || out.GetStatus().GetCode() != schedulerpb.StatusCode_SUCCESS {
					t.Errorf("%v, %v", out, err)
				}
				created <- out.GetCreated()
			}
		})
	}
	wg.Wait()
	close(created)
	n := 0
	for is := range created {
		if is {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of 10000 requests created the event, want 1", n)
	}
}

// Whatever a client sends, each method answers with an outcome or with a code that says who is at fault,
// and the server keeps running.
func FuzzRequests(f *testing.F) {
	for _, seed := range []proto.Message{
		request(1),
		&schedulerpb.ScheduleRequest{EventId: "x", ExecuteAt: -1 << 63, ExecuteTime: &timestamppb.Timestamp{Seconds: 1 << 62, Nanos: -1}, After: &durationpb.Duration{Seconds: 1<<63 - 1}},
		&schedulerpb.ListRequest{Limit: -1, Cursor: "\x00", Partition: proto.Int32(-7)},
		&schedulerpb.ListRequest{Cursor: "scheduled/99999999999999999999/x", DueAfter: &timestamppb.Timestamp{Seconds: -1 << 63, Nanos: 1<<31 - 1}},
		&schedulerpb.PartitionsRequest{Count: 1<<31 - 1, From: -1},
	} {
		text, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := start(t, nil)
		c := r.client(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		fine := func(method string, err error) {
			t.Helper()
			if code := status.Code(err); !slices.Contains([]codes.Code{codes.OK, codes.InvalidArgument}, code) {
				t.Errorf("%s: %v", method, err)
			}
		}
		var one schedulerpb.ScheduleRequest
		if proto.Unmarshal(text, &one) == nil && proto.Size(&one) < server.MostBytes/2 {
			_, err := c.Schedule(ctx, &one)
			fine("Schedule", err)
			_, err = c.ScheduleMany(ctx, &schedulerpb.ScheduleManyRequest{Requests: []*schedulerpb.ScheduleRequest{&one, nil, &one}})
			fine("ScheduleMany", err)
			_, err = c.Cancel(ctx, &schedulerpb.CancelRequest{EventId: one.GetEventId()})
			fine("Cancel", err)
			_, err = c.Reschedule(ctx, &schedulerpb.RescheduleRequest{EventId: one.GetEventId(), ExecuteAt: one.GetExecuteAt(), ExecuteTime: one.GetExecuteTime(), After: one.GetAfter()})
			fine("Reschedule", err)
			_, err = c.Get(ctx, &schedulerpb.GetRequest{EventId: one.GetEventId()})
			fine("Get", err)
		}
		var all schedulerpb.ListRequest
		if proto.Unmarshal(text, &all) == nil {
			_, err := list(t, c, &all)
			fine("List", err)
		}
		var count schedulerpb.PartitionsRequest
		if proto.Unmarshal(text, &count) == nil {
			_, err := c.Partitions(ctx, &count)
			fine("Partitions", err)
		}
	})
}

// Text that is not UTF-8, which only a client without protobuf can send, is rejected in each field, and
// the server keeps running.
func TestNotUTF8(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	conn := dial(t, r.address, grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	const id, topic, key, tenant = 1, 4, 7, 10 // of ScheduleRequest
	for _, field := range []protowire.Number{id, topic, key, tenant} {
		raw, err := proto.Marshal(request(1))
		if err != nil {
			t.Fatal(err)
		}
		raw = protowire.AppendTag(raw, field, protowire.BytesType)
		raw = protowire.AppendString(raw, "a\xff")
		var reply []byte
		if err := conn.Invoke(t.Context(), schedulerpb.SchedulerService_Schedule_FullMethodName, &raw, &reply); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("field %d: %v", field, err)
		}
	}
	if out, err := r.client(t).Schedule(t.Context(), request(1)); err != nil || !out.GetCreated() {
		t.Errorf("%v, %v", out, err)
	}
}

// rawCodec sends and receives messages unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

// Times outside of any calendar are rejected or select nothing; they are never mistaken for others, nor
// is a delay used in their place.
func TestImpossibleTimes(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := r.client(t)
	for _, at := range []*timestamppb.Timestamp{
		{Seconds: 1<<63 - 1},
		{Seconds: -1 << 63},
		{Seconds: 1 << 62, Nanos: 1<<31 - 1},
		{Nanos: -1 << 31},
		{Seconds: -1 << 62, Nanos: -1},
		{Seconds: request(1).ExecuteAt, Nanos: 1e9},
		{Seconds: request(1).ExecuteAt, Nanos: -1},
		{Seconds: time.Time{}.Unix()},
	} {
		want := "execute_time with nanos from 0 to 999,999,999"
		if at.Nanos == 0 && !at.AsTime().IsZero() {
			want = map[bool]string{true: "is too late", false: "has passed"}[at.Seconds > 0]
		}
		one := request(1)
		one.ExecuteTime, one.After = at, durationpb.New(time.Hour)
		out, err := c.Schedule(t.Context(), one)
		if message := out.GetStatus().GetMessage(); err != nil || out.GetStatus().GetCode() != schedulerpb.StatusCode_BAD_REQUEST || !strings.Contains(message, want) {
			t.Errorf("execute_time %v: %v, %v", at, out, err)
		}
		moved, err := c.Reschedule(t.Context(), &schedulerpb.RescheduleRequest{EventId: one.EventId, ExecuteTime: at, After: one.After})
		if message := moved.GetStatus().GetMessage(); err != nil || !strings.Contains(message, want) {
			t.Errorf("move to %v: %v, %v", at, moved, err)
		}
		if _, err := list(t, c, &schedulerpb.ListRequest{DueAfter: at, DueBefore: at}); err != nil {
			t.Errorf("due after %v: %v", at, err)
		}
	}
	for _, after := range []*durationpb.Duration{{Seconds: 1<<63 - 1}, {Seconds: -1 << 63}, {Nanos: -1 << 31}, {Seconds: 1 << 40, Nanos: 1<<31 - 1}, {}} {
		one := request(1)
		one.ExecuteAt, one.After = 0, after
		if out, err := c.Schedule(t.Context(), one); err != nil || out.GetStatus().GetCode() != schedulerpb.StatusCode_BAD_REQUEST {
			t.Errorf("after %v: %v, %v", after, out, err)
		}
	}
}

// A store that fails in the middle of a batch fails the calls of that batch, each once.
func TestBatchFails(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.fail(errors.New("gone"))
	var wg sync.WaitGroup
	for n := range 100 {
		c := r.client(t)
		wg.Go(func() {
			if _, err := c.Schedule(t.Context(), request(n)); status.Code(err) != codes.Unavailable {
				t.Error(fmt.Errorf("%d: %w, want UNAVAILABLE", n, err))
			}
		})
	}
	wg.Wait()
	r.fail(nil)
	if out, err := r.client(t).Schedule(t.Context(), request(1)); err != nil || !out.GetCreated() {
		t.Errorf("%v, %v", out, err)
	}
}
