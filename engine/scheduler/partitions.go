package scheduler

import (
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

// partitionQueue knows when each partition is due. Each worker of the process waits for a
// different partition, the one that is due first.
type partitionQueue struct {
	mu         sync.Mutex
	partitions map[int]*partition
	idle       []chan struct{} // of workers that wait for any partition
	paused     time.Time       // nothing is claimed before this time
}

// partition is one partition in a partitionQueue.
type partition struct {
	due      time.Time     // when to claim from it
	grace    time.Duration // 0 if it belongs to this process
	wake     chan struct{} // of the worker that waits for it; nil: none
	reserved bool
}

func newPartitionQueue() *partitionQueue {
	return &partitionQueue{partitions: map[int]*partition{}}
}

// grace is how much later than its owner another process looks at a partition so that a partition
// whose owner has died is served before the owner's registration expires.
const grace = time.Second

// set changes the partitions and which of them belong to this process.
func (q *partitionQueue) set(all []int, owned func(int) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := range q.partitions {
		if !slices.Contains(all, p) {
			delete(q.partitions, p)
		}
	}
	for _, p := range all {
		known := q.partitions[p]
		if known == nil {
			known = &partition{}
			q.partitions[p] = known
			q.wakeIdle()
		}
		if !owned(p) {
			known.grace = grace
		} else if known.grace > 0 {
			known.grace, known.due = 0, time.Time{} // look immediately: it may have waited for its former owner
			known.signal()
		}
	}
}

// reserve returns the partition that is due first, which other workers then do not get. If
// there is none, the worker is woken when there is one again.
func (q *partitionQueue) reserve(wake chan struct{}) (int, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := -1
	for p, one := range q.partitions {
		if one.reserved {
			continue
		}
		if first < 0 || one.due.Before(q.partitions[first].due) || one.due.Equal(q.partitions[first].due) && p < first {
			first = p
		}
	}
	if first < 0 {
		if !slices.Contains(q.idle, wake) {
			q.idle = append(q.idle, wake)
		}
		return 0, false
	}
	q.partitions[first].reserved, q.partitions[first].wake = true, wake
	return first, true
}

// release ends the reservation of a partition, which is due again at a given time.
func (q *partitionQueue) release(p int, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.partitions[p]; one != nil {
		one.reserved, one.wake, one.due = false, nil, due.Add(one.grace)
		q.wakeIdle()
	}
}

// notify records that a partition is due at a time, which may be earlier than known.
func (q *partitionQueue) notify(p int, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one := q.partitions[p]; one != nil && due.Before(one.due) {
		one.due = due
		one.signal()
	}
}

// due returns when to claim from a partition.
func (q *partitionQueue) due(p int) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.partitions[p]
	if one == nil {
		return time.Time{} // it is gone: a claim finds nothing
	}
	if one.due.Before(q.paused) {
		return q.paused
	}
	return one.due
}

// pause stops all claims until a given time.
func (q *partitionQueue) pause(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.paused.Before(until) {
		q.paused = until
	}
}

// restart makes all partitions due now.
func (q *partitionQueue) restart() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.paused = time.Time{}
	for _, one := range q.partitions {
		one.due = time.Time{}
		one.signal()
	}
}

// owned returns the number of partitions that this process owns.
func (q *partitionQueue) owned() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.partitions {
		if one.grace == 0 {
			n++
		}
	}
	return n
}

// wakeIdle wakes one worker that waits for any partition.
func (q *partitionQueue) wakeIdle() {
	if len(q.idle) > 0 {
		signal(q.idle[0])
		q.idle = q.idle[1:]
	}
}

// signal wakes the worker that waits for the partition.
func (p *partition) signal() {
	if p.wake != nil {
		signal(p.wake)
	}
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// owner returns the process that owns a partition: the one with the greatest hash of its name and the
// partition (rendezvous hashing), so that few partitions move when a process starts or stops. It
// returns "" if there are no processes.
func owner(p int, processes []string) (owner string) {
	var most uint64
	for _, name := range processes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{byte(p), byte(p >> 8)})
		if sum := mix(h.Sum64()); owner == "" || sum > most {
			owner, most = name, sum
		}
	}
	return owner
}

// mix spreads a hash over all bits (the finalizer of MurmurHash3): FNV changes little when only the
// last byte changes.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
