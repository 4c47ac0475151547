package top_test

import (
	"fmt"
	"testing"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/tui"
)

// Actions at a terminal take effect in Redis.
func TestScreen(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]string{{"80", "24"}, {"120", "40"}, {"200", "60"}} {
		t.Run(size[0]+"x"+size[1], func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t)
			w.run()
			for i := range 5 {
				w.start(fmt.Sprintf("order-%d", i), "nap", nap)
				w.timerOf(fmt.Sprintf("order-%d", i))
			}
			w.start("broken", "broken", "do: [{fall: {raise: {error: {type: https://example.com/no, status: 418, title: no tea}}}}]")
			w.becomes("broken", tui.Faulted)
			w.addDeadLetter("lost-1", "com.shop.paid", "nobody could read it")
			term := newTerminal(t, size[0], size[1], "top", "--redis-url", "redis://"+redistest.AddrOf(t, w.rdb))

			term.shows("Overview", "5 open", "worker", "executor", "timer", "alive", "order-0", "in 5", "no tea") // 59 minutes, or less where it takes long
			w.filters(term)
			w.opens(term)
			w.fires(term)
			w.cancels(term)
			w.replays(term)
			term.keys("q")
			term.over()
		})
	}
}

func (*environment) filters(term *terminal) {
	term.Helper()
	term.keys("2")
	term.shows("order-0", "order-4", "broken", "waiting", "faulted")
	term.keys("/")
	term.write("order-3")
	term.shows("order-3", "test.nap", "!order-4", "!broken")
	term.keys("Enter")
	term.shows("1 of 1", "order-3", "test.nap", "!order-4", "!broken")
}

func (*environment) opens(term *terminal) {
	term.Helper()
	term.keys("Enter")
	term.shows("order-3", "test.nap", "rest", "wait", "waiting")
	term.keys("Escape")
	term.shows("1 of 1", "!Document") // otherwise both are read as one key, with alt
	term.keys("1")
	term.shows("Overview", "5 open")
}

func (w *environment) fires(term *terminal) {
	term.Helper()
	term.keys("3")
	term.shows("order-0", "order-1", "wait")
	term.keys("/")
	term.write("execution:order-1")
	term.shows("order-1", "/do/", "!order-2")
	term.keys("Enter")
	term.shows("1 of 1", "order-1", "/do/", "!order-2")
	term.keys("F")
	term.shows("fires now", "the execution continues")
	if x := must(w.store.Execution(w.Context(), tenant, "order-1"))(w); x.Status != "waiting" {
		w.Errorf("before the confirmation order-1 is %s", x.Status)
	}
	term.keys("y")
	term.shows("fired the wait of order-1")
	w.becomes("order-1", tui.Completed)
}

func (w *environment) cancels(term *terminal) {
	term.Helper()
	term.keys("2")
	term.shows("order-3")
	term.keys("c")
	term.shows("order-3 (waiting) ends", "tenant default")
	// Enter does not confirm an action that cannot be undone.
	term.keys("n")
	term.shows("!(waiting) ends")
	term.keys("c")
	term.shows("order-3 (waiting) ends")
	if x := must(w.store.Execution(w.Context(), tenant, "order-3"))(w); x.Status != "waiting" {
		w.Errorf("before the confirmation order-3 is %s", x.Status)
	}
	term.keys("y")
	w.becomes("order-3", tui.Cancelled)
	term.shows("cancelled")
}

func (w *environment) replays(term *terminal) {
	term.Helper()
	term.keys("4")
	term.shows("com.shop.paid")
	term.keys("R")
	term.shows("replay 1 dead letter", "a replay returns it to its stream")
	if n := w.rdb.XLen(w.Context(), "tenant:default:events:dlq").Val(); n != 1 {
		w.Errorf("there are %d dead letters before the confirmation", n)
	}
	term.keys("y")
	term.shows("replayed")
	term.shows("!nobody could read")
	if n := w.rdb.XLen(w.Context(), "tenant:default:events:dlq").Val(); n != 0 {
		w.Errorf("%d dead letters are left", n)
	}
	found := w.page(tui.Query{Table: tui.Events, Filter: tui.ParseFilter(tui.Events, "kind:com.shop.paid"), Limit: 1}).Rows
	if len(found) != 1 {
		w.Errorf("in the stream: %v", found)
	}
}

// The screen reports a Redis that goes away and comes back, and keeps what it showed.
func TestScreenOfLostRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := must(store.Dial(t.Context(), server.Addr()))(t)
	t.Cleanup(func() { _ = rdb.Close() })
	w := environmentOn(t, rdb)
	stop := w.run()
	w.start("order-1", "nap", nap)
	w.timerOf("order-1")
	stop()
	term := newTerminal(t, "100", "30", "top", "--redis-url", server.Addr(), "--execution", "order-1", "--ascii", "--every", "200ms")
	term.shows("order-1", "rest")
	term.keys("1")
	term.shows("1 open")
	server.Kill()
	term.shows("connection lost", "1 open")
	server.Restart(t)
	term.shows("connected again")
	term.shows("1 open", "!connection lost")
	term.keys("q")
	term.over()
}
