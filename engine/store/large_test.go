package store_test

import (
	"context"
	"strings"
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

// Large entries are read one by one and complete. One that is too large is delivered
// with the reason and without its value, read or claimed; an unwanted one is skipped.
func TestLargeEntries(t *testing.T) {
	t.Parallel()
	ctx, rdb := t.Context(), redistest.Start(t)
	s := store.New(rdb, store.Options{})
	if err := stream.New(s).Groups(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	types := []string{"big", "other", "big", "small", "huge", "big"}
	sizes := []int{20 * mib, 20 * mib, 20 * mib, 1, 64*mib + 1, 1}
	for i, typ := range types {
		data := `"` + strings.Repeat(string(rune('a'+i)), sizes[i]-2+1) + `"`
		err := rdb.XAdd(ctx, &redis.XAddArgs{Stream: "tenant:a:events", Values: []string{
			"id", typ, "source", "/x", "specversion", "1.0", "type", typ, "time", "2026-01-01T00:00:00Z", "data", data,
		}}).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := stream.Reader{
		Group: store.WorkerGroup, Consumer: "w", Tenants: []string{"a"}, Continuous: true,
		Wants: func(typ event.Type) bool { return typ != "other" },
	}
	got, err := stream.New(s).Read(ctx, r, 10, 0)
	msgs := got.Messages
	if err != nil || len(msgs) != 5 || len(got.Unwanted) != 1 {
		t.Fatalf("%d messages and %d that are unwanted, %v; want 5 and 1", len(msgs), len(got.Unwanted), err)
	}
	for i, omitted := range []bool{false, true, false, false, false} {
		if m := msgs[i]; m.Omitted != omitted || (m.Err != nil) != (i == 3) {
			t.Errorf("message %d is omitted %v, error %v", i, m.Omitted, m.Err)
		}
	}
	if m := msgs[3]; !strings.Contains(m.Err.Error(), "limit event-value") || string(m.Event.Data) != "67108866 bytes were left out" {
		t.Errorf("error %v, data %.100s", m.Err, string(m.Event.Data))
	}
	gone := msgs[1]
	gone.ID = "1-1"
	loaded, left, err := stream.New(s).Load(ctx, r, []store.Message{gone, msgs[1]})
	if err != nil || len(loaded.Messages) != 1 || len(left) != 0 || len(loaded.Unwanted) != 1 {
		t.Fatalf("%d are loaded, %d are left, %d are gone, %v", len(loaded.Messages), len(left), len(loaded.Unwanted), err)
	}
	if m := loaded.Messages[0]; m.Omitted || m.ID != msgs[1].ID || string(m.Event.Data) != `"`+strings.Repeat("c", 20*mib-1)+`"` {
		t.Errorf("it is omitted %v, with id %s and %d bytes", m.Omitted, m.ID, len(string(m.Event.Data)))
	}

	if err := stream.New(s).Release(ctx, msgs...); err != nil {
		t.Fatal(err)
	}
	r.Consumer = "v"
	var claimed []int
	for range 3 {
		msgs, _, err := stream.New(s).ClaimAbandoned(ctx, r, time.Hour, 10, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		claimed = append(claimed, len(msgs))
		for _, m := range msgs {
			if (m.Err != nil) != (m.Event.Type == "huge") {
				t.Errorf("claimed %s: %v", m.Event.Type, m.Err)
			}
		}
	}
	if claimed[0] != 2 || claimed[1] != 3 || claimed[2] != 0 {
		t.Errorf("claimed %v at a time", claimed)
	}
}

// A message that Redis refuses to read again stays omitted; it is handled only if its entry is gone.
func TestLoadRefused(t *testing.T) {
	t.Parallel()
	rdb, err := store.Dial(t.Context(), miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(busyRanges{})
	m := store.Message{Tenant: "a", ID: "1-1", Omitted: true}
	loaded, left, err := stream.New(store.New(rdb, store.Options{})).Load(t.Context(), stream.Reader{}, []store.Message{m})
	if !store.Temporary(err) || len(loaded.Messages) != 0 || len(left) != 1 || len(loaded.Unwanted) != 0 {
		t.Errorf("%d are loaded, %d are left, %d are gone, %v; want 1 left and a temporary error", len(loaded.Messages), len(left), len(loaded.Unwanted), err)
	}
}

// busyRanges answers XRANGE as a Redis does that runs a slow script.
type busyRanges struct{}

func (busyRanges) DialHook(next redis.DialHook) redis.DialHook { return next }

func (busyRanges) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (busyRanges) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if raw, ok := cmd.(*wire.Cmd); ok && cmd.Name() == "xrange" {
			raw.SetVal([]byte("-BUSY Redis is busy running a script\r\n"))
			return nil
		}
		return next(ctx, cmd)
	}
}
