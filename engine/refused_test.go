package engine_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store/wire"
)

// An execution that cannot begin fails only once, even if its start is in the stream
// several times.
func TestUnknownWorkflowStartedTwice(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		e := newEngine(t, rdb, "one")
		b := engine.StartRequest{Tenant: tenant, ID: "x", Namespace: "test", Name: "nobody", Version: "1.0.0"}
		if err := engine.StartExecution(t.Context(), e.Store, b); err != nil {
			t.Fatal(err)
		}
		const stream = "tenant:" + tenant + ":events"
		entries, err := rdb.XRange(t.Context(), stream, "-", "+").Result()
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		for range 2 {
			if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: entries[0].Values}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		start(t, e, "behind", "do:\n  - one: {set: {n: 1}}\n", "{}")
		run(t, e)
		ended(t, e, "behind")
		if x := ended(t, e, "x"); x.Version != 2 {
			t.Errorf("its history has %d entries, want that it began and that it failed", x.Version)
		}
	})
}
