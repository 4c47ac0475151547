//go:build unix

package store_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

// What only reads does not wait for replicas.
func TestConfirmedReads(t *testing.T) {
	t.Parallel()
	rdb, err := store.Dial(t.Context(), redistest.Addr(t))
	must(t, err)
	defer rdb.Close()
	store.ConfirmWrites(rdb, 1)
	st := store.New(rdb, store.Options{})
	_, err = st.Entries(t.Context(), st.Keys().Stream(tenant), store.Range{Brief: true, Count: 1})
	must(t, err)
	if err := st.Publish(t.Context(), historyEvent("a", "com.x")); !errors.Is(err, wire.ErrUnconfirmed) {
		t.Errorf("a write without a replica: %v", err)
	}
}

// With REDIS_WAIT=all a write fails if a replica does not confirm it, even one that has only just
// connected.
func TestConfirmedWrites(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t, "--repl-diskless-sync-delay", "0")
	rdb, err := store.Dial(t.Context(), server.Addr())
	must(t, err)
	defer rdb.Close()
	store.ConfirmWrites(rdb, wire.AllReplicas)
	write := func() error {
		return rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "s", Values: []string{"v", "1"}}).Err()
	}
	must(t, write())
	_, port, _ := net.SplitHostPort(server.Addr())
	replica := redistest.Serve(t, "--replicaof", "127.0.0.1", port)
	for !strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:up") {
		must(t, write())
		time.Sleep(time.Millisecond)
	}
	must(t, write())
	must(t, syscall.Kill(replica.PID(), syscall.SIGSTOP))
	for began := time.Now(); err == nil && time.Since(began) < time.Minute; err = write() { // it may take a moment to stop
	}
	must(t, syscall.Kill(replica.PID(), syscall.SIGCONT))
	if !errors.Is(err, wire.ErrUnconfirmed) || !store.Temporary(store.Failed("write", err)) {
		t.Errorf("without a confirmation the error is %v", err)
	}
}
