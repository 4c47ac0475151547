package memory_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
)

// The simulator's Redis runs the commands that trim and inspect streams.
func TestMemoryTrims(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, client := openMemory(t)
	st := store.New(client, store.Options{})
	if err := stream.New(st).Groups(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := st.Publish(ctx, event.Event{ID: strconv.Itoa(i), Type: "com.x", Tenant: "acme", Time: memoryStart}); err != nil {
			t.Fatal(err)
		}
	}
	m.SetTime(memoryStart.Add(time.Hour))
	for group, count := range map[string]int{store.WorkerGroup: 10, store.ExecutorGroup: 6, store.TimerGroup: 10} {
		got, err := stream.New(st).Read(ctx, stream.Reader{Group: group, Consumer: "c", Tenants: []string{"acme"}}, count, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Messages {
			if err := stream.New(st).AcknowledgeOwned(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := stream.New(st).Trim(ctx, []string{"acme"}, 2, time.Minute); n != 5 || err != nil {
		t.Errorf("trimmed %d, %v, want 5", n, err)
	}
	found, err := inspect.New(st).Streams(ctx, []string{"acme"})
	if err != nil || found[0].Length != 5 || found[0].Groups[0].Name != store.ExecutorGroup || found[0].Groups[0].Lag != 4 {
		t.Errorf("found %+v, %v, want 5 entries, and 4 that the first group, the executor, has not read", found, err)
	}
	if err := stream.New(st).SweepConsumers(ctx, []string{"acme"}, store.WorkerGroup, 0); err != nil {
		t.Error(err)
	}
}

// The outcomes of inputs are recorded in a stream that is trimmed as it grows.
func TestMemoryRecordsInputs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, client := openMemory(t)
	st := store.New(client, store.Options{})
	if err := st.Observe(ctx, "acme", store.Observation{}); err != nil {
		t.Fatal(err)
	}
	key := st.Keys().Inputs("acme")
	for range 3 {
		if err := client.XAdd(ctx, &redis.XAddArgs{Stream: key, MaxLen: 2, Approx: true, Values: []string{"a", "b"}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	m.Each(key, func(string, []string) bool { kept++; return true })
	if kept != 2 {
		t.Errorf("%d entries are kept, want 2", kept)
	}
}
