package delivery

import (
	"slices"
	"testing"

	"flunq.io/flunq/engine/store"
)

// A poison candidate is a batch of its own.
func TestPoisonCandidatesAreBatches(t *testing.T) {
	t.Parallel()
	c := &Consumer{buffer: []store.Message{{ID: "1"}, {ID: "2"}, {ID: "3", Crashes: 2}, {ID: "4", Crashes: 3}, {ID: "5"}}}
	var sizes []int
	for batch := c.batch(); len(batch) > 0; batch = c.batch() {
		sizes = append(sizes, len(batch))
		c.setBuffer(c.buffer[len(batch):])
	}
	if !slices.Equal(sizes, []int{2, 1, 1, 1}) {
		t.Errorf("batches of %v, want 2, each candidate, and the last", sizes)
	}
}
