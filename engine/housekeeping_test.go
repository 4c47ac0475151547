package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Two processes remove ended executions concurrently, and only those.
func TestFinishedExecutionsAreRemoved(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		keeping := func(process string) {
			opts := engine.Defaults()
			opts.Process, opts.Transport = process, http.DefaultTransport
			opts.Workers, opts.Executors, opts.Timers = 2, 2, 1
			opts.Retention.Finished = store.Keep{Age: time.Millisecond}
			opts.Block(10 * time.Millisecond)
			e := prepared(t, rdb, opts)
			run(t, e)
		}
		e := newEngine(t, rdb, "works")
		run(t, e)
		const do = "do:\n  - nap: {if: .long, wait: PT1H}\n"
		start(t, e, "stays", do, `{"long": true}`)
		begun(t, e, "stays")
		for i := range 30 {
			start(t, e, fmt.Sprint("x-", i), do, `{"long": false}`)
		}
		for i := range 30 {
			ended(t, e, fmt.Sprint("x-", i))
		}
		keeping("one")
		keeping("two")
		gone := func(id string) bool {
			n, err := rdb.Exists(t.Context(), "tenant:default:execution:"+id).Result()
			if err != nil {
				t.Fatal(err)
			}
			return n == 0
		}
		until := time.Now().Add(patience)
		for i := 0; i < 30; {
			if gone(fmt.Sprint("x-", i)) {
				i++
			} else if time.Now().After(until) {
				t.Fatalf("x-%d is still there", i)
			} else {
				time.Sleep(time.Millisecond)
			}
		}
		left, err := rdb.Keys(t.Context(), "tenant:default:execution:x-*").Result()
		if err != nil || len(left) > 0 {
			t.Errorf("left are %s, %v", strings.Join(left, ", "), err)
		}
		if gone("stays") {
			t.Error("an execution that has not ended was removed")
		}
	})
}
