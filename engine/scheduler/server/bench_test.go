package server_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
	"flunq.io/flunq/engine/scheduler/server"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

// uuid returns a random UUID.
func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// bare answers Schedule and does nothing.
type bare struct {
	schedulerpb.UnimplementedSchedulerServiceServer
}

func (bare) Schedule(context.Context, *schedulerpb.ScheduleRequest) (*schedulerpb.ScheduleResponse, error) {
	return &schedulerpb.ScheduleResponse{Status: &schedulerpb.Status{}}, nil
}

// BenchmarkSchedule compares calls of one and of 32 callers, over up to 8 connections, to a server
// that does nothing with those to the scheduler on a real Redis.
func BenchmarkSchedule(b *testing.B) {
	listen := func() net.Listener {
		l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	one := func(ctx context.Context, c schedulerpb.SchedulerServiceClient) (int, error) {
		_, err := c.Schedule(ctx, fresh())
		return 1, err
	}
	many := func(ctx context.Context, c schedulerpb.SchedulerServiceClient) (int, error) {
		var r schedulerpb.ScheduleManyRequest
		for range 100 {
			r.Requests = append(r.Requests, fresh())
		}
		_, err := c.ScheduleMany(ctx, &r)
		return len(r.Requests), err
	}
	b.Run("bare", func(b *testing.B) {
		l, s := listen(), grpc.NewServer()
		schedulerpb.RegisterSchedulerServiceServer(s, bare{})
		go s.Serve(l)
		b.Cleanup(s.Stop)
		for _, callers := range []int{1, 32} {
			b.Run(strconv.Itoa(callers), func(b *testing.B) { load(b, l.Addr().String(), callers, one) })
		}
	})
	ledger := agenda.NewLedger(wire.NewClient(redistest.Start(b)), agenda.Defaults())
	if err := ledger.SetPartitions(b.Context(), 0, 16); err != nil {
		b.Fatal(err)
	}
	opts := server.DefaultOptions()
	opts.Log, opts.Check = slog.New(slog.DiscardHandler), func(ctx context.Context) error { _, err := ledger.Now(ctx); return err }
	api := scheduler.NewAPI(ledger, scheduler.APIOptions{Limits: schedule.DefaultLimits(), Tenant: "default", Now: time.Now})
	l := listen()
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.New(api, opts).Run(ctx, l) }()
	for _, callers := range []int{1, 32} {
		b.Run("Schedule/"+strconv.Itoa(callers), func(b *testing.B) { load(b, l.Addr().String(), callers, one) })
	}
	b.Run("ScheduleMany", func(b *testing.B) { load(b, l.Addr().String(), 8, many) })
	stop()
	<-ended
}

func fresh() *schedulerpb.ScheduleRequest {
	return &schedulerpb.ScheduleRequest{
		EventId: uuid(), ExecuteAt: time.Now().Unix() + 3600, Topic: "orders", Payload: []byte(`{"order":7,"total":12.5}`),
	}
}

// load makes b.N calls from several callers.
func load(b *testing.B, address string, callers int, call func(context.Context, schedulerpb.SchedulerServiceClient) (int, error)) {
	b.Helper()
	const connections = 8
	clients := make([]schedulerpb.SchedulerServiceClient, connections)
	for i := range clients {
		clients[i] = schedulerpb.NewSchedulerServiceClient(dial(b, address))
	}
	var left, events atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				n, err := call(b.Context(), clients[i%connections])
				if err != nil {
					b.Error(err)
					return
				}
				events.Add(int64(n))
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(events.Load())/b.Elapsed().Seconds(), "events/s")
}
