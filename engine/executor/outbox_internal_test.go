package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

// counter counts the scripts and the requests for the time, and delays the first script.
type counter struct {
	mu             sync.Mutex
	scripts, times int
	hold           chan struct{}
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.mu.Lock()
		hold := c.hold
		switch cmd.Name() {
		case "evalsha":
			c.scripts++
			c.hold = nil
		case "time":
			c.times++
			hold = nil
		default:
			hold = nil
		}
		c.mu.Unlock()
		if hold != nil {
			<-hold
		}
		return next(ctx, cmd)
	}
}

// Reports that come while one is being sent are sent together afterwards. The time is requested once,
// and each sender learns the outcome of its own report.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) wire.Redis{
		"miniredis": func(t *testing.T) wire.Redis {
			t.Helper()
			return redistest.Connect(t, miniredis.RunT(t).Addr())
		},
		"redis": func(t *testing.T) wire.Redis { t.Helper(); return redistest.Start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groupCommit(t, open(t))
		})
	}
}

func groupCommit(t *testing.T, rdb wire.Redis) {
	t.Helper()
	const n = 20
	ctx := t.Context()
	st := store.New(rdb, store.Options{})
	tenants := []string{"a", "b"}
	r := stream.Reader{Group: store.ExecutorGroup, Consumer: "e", Tenants: tenants}
	for _, tenant := range tenants {
		check(t, stream.New(st).Groups(ctx, tenant))
		for i := range n {
			check(t, st.Publish(ctx, event.Event{ID: fmt.Sprint(tenant, i), Source: "/test", Type: event.TaskRequested, Tenant: tenant}))
		}
	}
	got, err := stream.New(st).Read(ctx, r, n, 0)
	msgs := got.Messages
	check(t, err)
	warm, msgs := msgs[0], msgs[1:]
	if _, err := stream.New(st).Replies(ctx, []stream.Reply{{Message: &warm, Event: &event.Event{ID: "warm", Source: "/test", Type: event.TaskCompleted, Tenant: "a"}}}); err != nil {
		t.Fatal(err) // so that Redis has the script
	}
	check(t, rdb.Set(ctx, "tenant:b:events", "no stream", 0).Err()) // replies to b fail

	c := &counter{hold: make(chan struct{})}
	release := c.hold
	rdb.AddHook(c)
	o := &outbox{store: st}
	errs := make([]error, len(msgs))
	var wg sync.WaitGroup
	for i, m := range msgs {
		wg.Go(func() { errs[i] = o.send(ctx, []*job{{message: m, result: &event.Completed{Success: true}}}) })
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		o.mu.Lock()
		waiting := len(o.waiting)
		o.mu.Unlock()
		if waiting == len(msgs)-1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait, want %d", waiting, len(msgs)-1)
		}
	}
	close(release)
	wg.Wait()
	for i, m := range msgs {
		if wrong := errs[i] != nil; wrong != (m.Tenant == "b") {
			t.Errorf("%s of tenant %s: %v", m.Event.ID, m.Tenant, errs[i])
		}
	}
	// The first report is sent alone, then all others: one script for each tenant.
	if c.scripts > 3 || c.times != 2 {
		t.Errorf("%d scripts and %d times, want 3 and 2", c.scripts, c.times)
	}
	if o.sending || len(o.waiting) != 0 {
		t.Error("a report is still being sent")
	}
	if got, err := rdb.XPending(ctx, "tenant:a:events", store.ExecutorGroup).Result(); err != nil || got.Count != 0 {
		t.Errorf("%v pending, %v", got, err)
	}
}

// A report that Redis rejected is sent when Redis is back, with the time of the task.
func TestSendAgain(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	mini.SetTime(time.Unix(100, 0))
	rdb := redistest.Connect(t, mini.Addr())
	st := store.New(rdb, store.Options{})
	check(t, stream.New(st).Groups(t.Context(), "a"))
	check(t, st.Publish(t.Context(), event.Event{ID: "q", Source: "/test", Type: event.TaskRequested, Tenant: "a"}))
	got, err := stream.New(st).Read(t.Context(), stream.Reader{Group: store.ExecutorGroup, Consumer: "e", Tenants: []string{"a"}}, 10, 0)
	msgs := got.Messages
	check(t, err)
	j := &job{message: msgs[0], result: &event.Completed{}}
	o := &outbox{store: st}

	mini.SetTime(time.Unix(103, 0))
	mini.SetError("LOADING")
	if err := o.send(t.Context(), []*job{j}); err == nil || !errors.Is(err, j.err) || !j.reply.Time.Equal(j.message.Read) {
		t.Errorf("%v, %v at %v", err, j.err, j.reply.Time)
	}
	mini.SetError("")
	check(t, o.send(t.Context(), []*job{j}))
	if j.err != nil || !j.reply.Time.Equal(j.message.Read) {
		t.Errorf("%v at %v", j.err, j.reply.Time)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// No executor is woken twice for the same work, and one that stops waiting passes its
// wakeup on.
func TestIdleExecutors(t *testing.T) {
	t.Parallel()
	var e idleExecutors
	first, second, third := e.add(), e.add(), e.add()
	e.wake(2)
	e.wake(2) // for these two
	if isAwake(first) || !isAwake(second) || !isAwake(third) {
		t.Error("the last two are not the ones that are awake")
	}
	e.searching()
	e.wake(1)
	if isAwake(first) {
		t.Error("the first is woken although another one is about to search")
	}
	if e.remove(second) || !e.remove(first) {
		t.Error("the first is not the only idle one")
	}
}

func isAwake(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
