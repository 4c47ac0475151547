//go:build unix

package torture_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// resting counts with waits in between so that there are always timers.
const resting = `do:
  - loop:
      for: {in: "[range(10)]"}
      do:
        - count: {set: {n: "${ (.n // 0) + 1 }"}}
        - rest: {wait: {milliseconds: 200}}
        - keep: {set: {n: "${ .n }"}}
`

// Redis rejects writes because it is out of memory: no transition is half done, and
// everything continues once there is memory again.
func TestMemory(t *testing.T) {
	w := begin(t, "--maxmemory-policy", "noeviction")
	n, windows := size(20, 320), size(1, 8)
	w.run(2, role{Workers: 2, Executors: 4, Timers: 2, Remote: true})
	do, want := counting(2, 20)
	defs := []*dsl.Definition{w.define("resting", resting), w.define("counting", do)}
	wanted := []string{`{"n":10}`, want}
	from := w.now().Add(time.Second)
	due := w.plan("t", n, from, size(time.Second, 6*time.Second))
	w.put(due)
	ids := names("x", n)
	halfDone, ended := 0, 0
	for i := range windows {
		started := ids[:(i+1)*n/windows]
		for j := i * n / windows; j < len(started); j++ {
			w.start(ids[j], defs[j%2], struct{}{})
		}
		w.fill()
		halfDone += w.halfDone(started)
		time.Sleep(500 * time.Millisecond)
		halfDone += w.halfDone(started)
		ended, _ = w.published(event.WorkflowCompleted)
		w.must(w.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		w.must(w.rdb.Del(t.Context(), fillerKey).Err())
	}
	began := time.Now()
	w.settle(allGroups()...)

	took, wrong := time.Since(began), 0
	for i, id := range ids {
		s, err := w.ended(id)
		if err == nil && (s.Status != string(decide.Completed) || string(s.Output) != wanted[i%2]) {
			err = fmt.Errorf("execution %s is %s with output %s and error %s", id, s.Status, s.Output, s.Error)
		}
		if err != nil {
			if wrong++; wrong <= 5 {
				t.Error(err)
			}
		}
	}
	v := compare(due, w.firings(tenant))
	w.report("times full=%d refused=%s ended before the last was over=%d executions=%d half done=%d wrong=%d to the end=%v timers: %v",
		windows, w.refused(), ended, n, halfDone, wrong, took.Round(time.Millisecond), v)
	w.faultless(v)
	w.want("half done", halfDone, 0)
	w.want("wrong", wrong, 0)
	w.noDeadLetters()
}

const fillerKey = "torture:filler"

// fill limits Redis' memory and fills it until writes are rejected.
func (w *environment) fill() {
	w.t.Helper()
	ctx := w.t.Context()
	info, err := w.rdb.InfoMap(ctx, "memory").Result()
	w.must(err)
	used, err := strconv.Atoi(info["Memory"]["used_memory"])
	w.must(err)
	w.must(w.rdb.ConfigSet(ctx, "maxmemory", strconv.Itoa(used+4<<20)).Err())
	filler := strings.Repeat("x", 16<<10)
	w.until(func() string {
		for {
			err := w.rdb.RPush(ctx, fillerKey, filler).Err()
			if err != nil && strings.HasPrefix(err.Error(), "OOM") {
				return ""
			}
			w.must(err)
		}
	})
}

// refused returns how many commands were rejected because Redis was out of memory.
func (w *environment) refused() string {
	w.t.Helper()
	info, err := w.rdb.InfoMap(w.t.Context(), "errorstats").Result()
	w.must(err)
	return strings.TrimPrefix(info["Errorstats"]["errorstat_OOM"], "count=")
}

// halfDone returns how many executions have a version that differs from their history's,
// or a history that cannot be replayed.
func (w *environment) halfDone(ids []string) (n int) {
	w.t.Helper()
	for _, id := range ids {
		if _, err := w.read(id); err != nil {
			w.t.Log(err)
			n++
		}
	}
	return n
}
