package store_test

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// A Redis that would refuse a write says why, and nothing is written to find out.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	s := store.New(rdb, store.Options{})
	refused := func(want string, set ...any) {
		t.Helper()
		if err := rdb.Do(t.Context(), set...).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := store.RefusedWrites(t.Context(), s)
		if err != nil || !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("after %v: %q, %v; want %q", set, got, err, want)
		}
	}
	refused("", "PING")
	refused("memory is full", "CONFIG", "SET", "maxmemory", "1")
	refused("", "CONFIG", "SET", "maxmemory", "0")
	refused("too few replicas", "CONFIG", "SET", "min-replicas-to-write", "1")
	refused("", "CONFIG", "SET", "min-replicas-to-write", "0")
	refused("read-only replica", "REPLICAOF", "127.0.0.1", "1")
	refused("", "REPLICAOF", "NO", "ONE")
	if n, err := rdb.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys, %v", n, err)
	}
}
