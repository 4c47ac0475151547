package store_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc64"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
)

// claims claims all messages whose lease has lapsed.
func (w *environment) claims(t *testing.T, consumer string) []store.Message {
	t.Helper()
	now, err := w.Now(t.Context())
	must(t, err)
	msgs, _, err := stream.New(w.Store).ClaimAbandoned(t.Context(), reader(store.WorkerGroup, consumer), 30*time.Second, 10, now)
	must(t, err)
	return msgs
}

// pendingMessages returns all messages that the workers have not acknowledged.
func (w *environment) pendingMessages(t *testing.T) []store.Message {
	t.Helper()
	entries, err := w.rdb.XPendingExt(t.Context(), &redis.XPendingExtArgs{
		Stream: streamKey, Group: store.WorkerGroup, Start: "-", End: "+", Count: 100,
	}).Result()
	must(t, err)
	var out []store.Message
	for _, e := range entries {
		out = append(out, store.Message{Tenant: tenant, Group: store.WorkerGroup, ID: e.ID, Consumer: e.Consumer})
	}
	return out
}

// crashes returns the crash counts of messages, in order.
func crashes(msgs []store.Message) []int {
	var out []int
	for _, m := range msgs {
		out = append(out, m.Crashes)
	}
	return out
}

var leases = []check{
	{"each dead consumer counts, until a message is a poison candidate", func(t *testing.T, w *environment) {
		w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w0")
		for i, want := range []int{1, 2, 2, 2} {
			w.letAge(t, time.Minute, w.pendingMessages(t)...)
			msgs := w.claims(t, "w"+string(rune('1'+i)))
			if diff := cmp.Diff([]int{want}, crashes(msgs)); diff != "" {
				t.Fatalf("claim %d: %s", i+1, diff)
			}
		}
	}},
	{"crashes on a poison candidate count if it was isolated", func(t *testing.T, w *environment) {
		w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w0")
		var m store.Message
		for _, consumer := range []string{"w1", "w2"} {
			w.letAge(t, time.Minute, w.pendingMessages(t)...)
			m = w.claims(t, consumer)[0]
		}
		for i, consumer := range []string{"w3", "w4", "w5"} {
			must(t, stream.New(w.Store).MarkIsolated(t.Context(), m))
			w.letAge(t, time.Minute, w.pendingMessages(t)...)
			if m = w.claims(t, consumer)[0]; m.Crashes != 3+i {
				t.Fatalf("%d crashes, want %d", m.Crashes, 3+i)
			}
		}
		must(t, stream.New(w.Store).AcknowledgeOwned(t.Context(), m))
		must(t, stream.New(w.Store).ForgetCrashes(t.Context(), tenant))
		if n := w.rdb.HLen(t.Context(), streamKey+":deaths").Val(); n != 0 {
			t.Errorf("%d crash counts are left", n)
		}
	}},
	{"a message that was released, or is claimed by its own consumer, has caused no crash", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w0")
		must(t, stream.New(w.Store).Release(t.Context(), m))
		if got := crashes(w.claims(t, "w1")); len(got) != 1 || got[0] != 0 {
			t.Fatalf("crashes %v after a release", got)
		}
		w.letAge(t, time.Minute, w.pendingMessages(t)...)
		if got := crashes(w.claims(t, "w1")); len(got) != 1 || got[0] != 0 {
			t.Errorf("crashes %v after its own claim", got)
		}
	}},
}

// A message that was delivered before the clock of Redis went back is claimed after a lease, although its
// time of delivery is in the future.
func TestClaimAfterClockWentBack(t *testing.T) {
	t.Parallel()
	const lease, ahead = 50 * time.Millisecond, time.Hour
	w := newEnvironment(t, redistest.Start(t), nil, store.Options{})
	w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w0")
	var delivered time.Time
	for _, group := range w.rdb.XInfoStreamFull(t.Context(), streamKey, 1).Val().Groups {
		if group.Name == store.WorkerGroup {
			delivered = group.Pending[0].DeliveryTime
		}
	}
	// The dump of the stream, with another time of the delivery and the checksum of that.
	dump := []byte(w.rdb.Dump(t.Context(), streamKey).Val())
	little := binary.LittleEndian.AppendUint64
	dump = bytes.ReplaceAll(dump[:len(dump)-8], little(nil, uint64(delivered.UnixMilli())), little(nil, uint64(delivered.Add(ahead).UnixMilli())))
	// hash/crc64 inverts the sum before and after; Redis does not.
	sum := ^crc64.Update(^uint64(0), crc64.MakeTable(0x95ac9329ac4bc9b5), dump)
	must(t, w.rdb.RestoreReplace(t.Context(), streamKey, 0, string(little(dump, sum))).Err())
	for deadline := time.Now().Add(10 * time.Second); ; {
		now, err := w.Now(t.Context())
		must(t, err)
		msgs, _, err := stream.New(w.Store).ClaimAbandoned(t.Context(), reader(store.WorkerGroup, "w1"), lease, 10, now)
		must(t, err)
		if len(msgs) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not claimed within 10s: %+v", w.rdb.XPendingExt(t.Context(), &redis.XPendingExtArgs{
				Stream: streamKey, Group: store.WorkerGroup, Start: "-", End: "+", Count: 1,
			}).Val())
		}
	}
}
