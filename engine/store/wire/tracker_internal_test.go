package wire

import (
	"context"
	"errors"
	"net"
	"testing"
)

// A node that cannot be reached is not tried again at once, since that takes a while; another one is.
func TestTrackerOfLostNode(t *testing.T) {
	t.Parallel()
	dials := map[string]int{}
	tracker := newTracker(func(_ context.Context, key string) (node, error) {
		return node{address: key, dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dials[address]++
			return nil, errors.New("lost")
		}}, nil
	})
	for _, key := range []string{"a", "a", "b"} {
		tracker.Watch(t.Context(), []string{key})
	}
	if dials["a"] != 1 || dials["b"] != 1 {
		t.Errorf("dialled %v, want each node once", dials)
	}
}
