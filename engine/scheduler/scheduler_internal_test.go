package scheduler

import "testing"

// Partitions are spread over the processes, and a process that leaves moves only its own.
func TestOwner(t *testing.T) {
	t.Parallel()
	const count = 64
	processes := []string{"host-1", "host-2", "host-3", "host-4"}
	owned := map[string]int{}
	for p := range count {
		before := owner(p, processes)
		owned[before]++
		if after := owner(p, processes[:3]); before != "host-4" && after != before {
			t.Errorf("partition %d moved from %s to %s although only host-4 left", p, before, after)
		}
	}
	for _, name := range processes {
		if n := owned[name]; n < count/8 || n > count/2 {
			t.Errorf("%s owns %d of %d partitions", name, n, count)
		}
	}
	if got := owner(1, nil); got != "" {
		t.Errorf("without processes the owner is %q", got)
	}
}
