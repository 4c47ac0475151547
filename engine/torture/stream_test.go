//go:build unix

package torture_test

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// kept returns how many events the consumers of a process have pending.
func (w *environment) kept(process string) (n int) {
	w.t.Helper()
	for _, group := range allGroups() {
		consumers, err := w.rdb.XInfoConsumers(w.t.Context(), streamKey, group).Result()
		w.must(err)
		for _, c := range consumers {
			if strings.Contains(c.Name+"-", "-"+process+"-") {
				n += int(c.Pending)
			}
		}
	}
	return n
}

// published returns how many events of a type the stream has, and how many of them are
// duplicates that no retry explains.
func (w *environment) published(typ event.Type) (all, duplicated int) {
	w.t.Helper()
	seen := map[any]bool{}
	w.stream(streamKey, func(e redis.XMessage) {
		if e.Values["type"] != string(typ) || e.Values[event.AttemptAttribute] != nil {
			return
		}
		all++
		if id := e.Values["id"]; seen[id] {
			duplicated++
		} else {
			seen[id] = true
		}
	})
	return all, duplicated
}

// stream visits all entries of a stream.
func (w *environment) stream(key string, each func(redis.XMessage)) {
	w.t.Helper()
	for from := "-"; ; {
		entries, err := w.rdb.XRangeN(w.t.Context(), key, from, "+", 2000).Result()
		w.must(err)
		for _, e := range entries {
			each(e)
		}
		if len(entries) == 0 {
			return
		}
		from = "(" + entries[len(entries)-1].ID
	}
}
