package memory

import (
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// Database holds the keys of a Server with their values, and the clock that expires them. The
// commands are functions on it.
type Database struct {
	// Added, if set, is called for each entry that is added to a stream, and for each
	// command that adds to a sorted set. It must not send commands.
	Added func(key string, fields []string)
	// Observer receives what happens to entries and keys.
	Observer Observer

	// Page is how many elements a SCAN command returns per call; 0: all.
	Page int
	// AcceptBlock makes XREADGROUP accept BLOCK and ignore it: the caller waits before it reads.
	AcceptBlock bool

	keys map[string]*item
	now  time.Time
	ms   int64 // now in milliseconds since 1970
	*scratch
}

// item is the value of a key: a *text, *hash, *set, *sortedSet or *stream.
type item struct {
	value   any
	expires int64 // in milliseconds since 1970; 0: never
}

func (db *Database) setTime(t time.Time) { db.now, db.ms = t, t.UnixMilli() }

// item returns the item of a key; nil if there is none or it has expired.
func (db *Database) item(key string) *item {
	it := db.keys[key]
	if it != nil && it.expires != 0 && it.expires <= db.ms {
		delete(db.keys, key)
		return nil
	}
	return it
}

// lookup returns the value of a key, nil if there is none. It returns false if the value
// has another type.
func lookup[T any](db *Database, key string) (value *T, ok bool) {
	it := db.item(key)
	if it == nil {
		return nil, true
	}
	value, ok = it.value.(*T)
	return value, ok
}

// find returns the value of a key, nil if there is none. It refuses a value of another type.
func find[T any](db *Database, key string) *T {
	value, ok := lookup[T](db, key)
	if !ok {
		refuse(wrongType)
	}
	return value
}

// ensure is like find, but creates the value if there is none.
func ensure[T any](db *Database, key string) *T {
	value := find[T](db, key)
	if value == nil {
		value = new(T)
		db.keys[key] = &item{value: value}
	}
	return value
}

// reads returns a command that reads a value; a missing one is empty.
func reads[T any](read func(db *Database, value *T, args []string) resp.Reply) func(*Database, []string) resp.Reply {
	return func(db *Database, args []string) resp.Reply {
		value, ok := lookup[T](db, args[1])
		if value == nil {
			value = new(T)
		}
		reply := read(db, value, args)
		if !ok { // invalid arguments are refused first
			refuse(wrongType)
		}
		return reply
	}
}

// removes returns a command that removes parts of a value, and the key with its last part.
func removes[T any](remove func(value *T, part string) bool, size func(*T) int) func(*Database, []string) resp.Reply {
	return reads(func(db *Database, value *T, args []string) resp.Reply {
		n := 0
		for _, part := range args[2:] {
			if remove(value, part) {
				n++
			}
		}
		if n > 0 && size(value) == 0 {
			delete(db.keys, args[1])
		}
		return resp.Int(n)
	})
}

// put sets a string without expiry.
func (db *Database) put(key, value string) *item {
	it := &item{value: &text{value}}
	db.keys[key] = it
	return it
}

// expire sets the expiry time of a key; a time in the past deletes the key.
func (db *Database) expire(key string, it *item, at int64) {
	if at <= db.ms {
		delete(db.keys, key)
		return
	}
	it.expires = at
}

// matching returns the keys that match a pattern, sorted.
func (db *Database) matching(pattern, kind string) []string {
	found := make([]string, 0, len(db.keys))
	for key := range db.keys {
		if glob(pattern, key) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return slices.DeleteFunc(found, func(key string) bool {
		it := db.item(key)
		return it == nil || kind != "" && !strings.EqualFold(kind, typeName(it))
	})
}

// scratch holds the buffers of a server, which later servers reuse.
type scratch struct {
	args   []string   // of the current command
	reply  resp.Reply // to the current command
	runner lua.Runner
}

//nolint:gochecknoglobals // a pool of empty buffers
var scratches sync.Pool

// newScratch returns buffers from the pool, or new ones.
func newScratch() *scratch {
	if s, ok := scratches.Get().(*scratch); ok {
		return s
	}
	return &scratch{}
}
