package delivery_test

import (
	"context"
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// losing calls lose as soon as Redis has recorded that a message is isolated.
type losing struct{ lose func() }

func (l losing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l losing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "hset" {
			l.lose()
		}
		return err
	}
}

// A poison candidate that is lost while it is marked does not begin.
func TestPoisonCandidateIsLostWhileMarked(t *testing.T) {
	t.Parallel()
	lost := errors.New("another consumer has claimed it")
	ctx, cancel := context.WithCancelCause(t.Context())
	rdb := redistest.Connect(t, miniredis.RunT(t).Addr())
	rdb.AddHook(losing{func() { cancel(lost) }})
	opts := delivery.Defaults("executor", store.ExecutorGroup)
	opts.Consumer, opts.Tenants = "e1", delivery.NewTenantSet(tenant)
	opts.Observe = func(a delivery.Activity) { t.Errorf("it was %s", a.What) }
	d, err := delivery.NewConsumer(store.New(rdb, store.Options{}), opts)
	must(t, err)
	m := store.Message{ID: "1-0", Tenant: tenant, Group: store.ExecutorGroup, Consumer: "e1", Crashes: 2}
	err = d.Handle(ctx, []store.Message{m}, func() error {
		t.Error("it was handled")
		return nil
	})
	if !delivery.PoisonCandidate(m) || !errors.Is(err, lost) {
		t.Errorf("the error is %v, want %v", err, lost)
	}
}
