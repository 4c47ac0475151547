package scheduler

import (
	"fmt"
	"testing"
	"time"
)

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

// Workers wait for different partitions, the one that is due first before the others; a worker that
// finds none is woken when one is given back.
func TestPartitionQueue(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	q := newPartitionQueue()
	q.set([]int{0, 1, 2}, func(p int) bool { return p != 2 })
	wakes := make([]chan struct{}, 4)
	for i := range wakes {
		wakes[i] = make(chan struct{}, 1)
	}
	woken := func(i int) bool {
		select {
		case <-wakes[i]:
			return true
		default:
			return false
		}
	}
	for i := range 3 {
		if p, ok := q.reserve(wakes[i]); !ok || p != i {
			t.Fatalf("worker %d waits for %d, %v", i, p, ok)
		}
	}
	if _, ok := q.reserve(wakes[3]); ok {
		t.Fatal("a partition was taken twice")
	}
	q.release(1, at(10))
	if !woken(3) {
		t.Error("the idle worker was not woken for the free partition")
	}
	q.release(2, at(5)) // of another process: a second later
	if got := q.due(2); !got.Equal(at(6)) {
		t.Errorf("a partition of another process is looked at %s, want a second late", got)
	}
	if p, ok := q.reserve(wakes[3]); !ok || p != 2 {
		t.Errorf("took %d, %v, want the one that is due first", p, ok)
	}
	q.notify(2, at(3))
	if !woken(3) || !q.due(2).Equal(at(3)) {
		t.Error("an earlier event does not wake the worker that waits for its partition")
	}
	q.notify(2, at(4))
	if woken(3) || !q.due(2).Equal(at(3)) {
		t.Error("a later event changes when the partition is looked at")
	}
	q.pause(at(8))
	if !q.due(2).Equal(at(8)) || !q.due(1).Equal(at(10)) {
		t.Error("a pause does not put off what is due before its end, or something else")
	}
	q.set([]int{1, 2}, func(int) bool { return true })
	if !woken(3) || !q.due(2).Equal(at(8)) || q.owned() != 2 {
		t.Error(fmt.Sprint("the new owner does not look immediately; owned: ", q.owned()))
	}
	q.release(0, at(1)) // gone meanwhile
	if p, ok := q.reserve(wakes[0]); !ok || p != 1 {
		t.Errorf("took %d, %v after a partition has gone", p, ok)
	}
}
