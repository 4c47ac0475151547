package store

import "sync"

// Memory is what Stores work in, and give back once they are done with it: nothing in
// it outlives a call. Those of one program may share it.
//
// It is no part of a Store: the runtime keeps a pool until the second collection of
// garbage after its last use, and would keep the Store with it, and all that this refers
// to. The simulator makes thousands of Stores in a second.
type Memory struct {
	bufferPool bufferPool
	trips      sync.Pool // of *roundTrip
	readings   sync.Pool // of *reading
}
