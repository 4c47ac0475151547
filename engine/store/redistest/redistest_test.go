package redistest_test

import (
	"testing"

	"flunq.io/flunq/engine/store/redistest"
)

// Two servers running at the same time are two databases.
func TestStart(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t)
	if err := first.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if redistest.AddrOf(t, first) == redistest.AddrOf(t, second) {
		t.Skip("one external server: nothing to tell apart")
	}
	if n := second.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("the second server holds %d keys, want 0", n)
	}
}
