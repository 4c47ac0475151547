package store

import "sync"

// Memory is what Stores work in, and give back once they are done with it: nothing in
// it outlives a call. Those of one program may share it.
type Memory struct {
	rooms    rooms
	batches  sync.Pool // of *commitBatch
	trips    sync.Pool // of *roundTrip
	readings sync.Pool // of *reading
}
