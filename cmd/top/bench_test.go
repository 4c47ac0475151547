package top_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/cmd/top"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

const (
	manyExecutions = 100_000
	manyTimers     = 1_000_000
)

// crowded returns a Redis with many executions and timers, half of which have the same
// time.
func crowded(b *testing.B) tui.Source {
	b.Helper()
	rdb := redistest.Start(b)
	pipe := rdb.Pipeline()
	flush := func() {
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range manyExecutions {
		id, at := fmt.Sprintf("order-%06d", i), start.Add(time.Duration(i)*time.Millisecond)
		pipe.HSet(b.Context(), "tenant:default:execution:"+id, "status", "waiting", "version", "7", "workflow", "shop.order",
			"created", at.Format(time.RFC3339Nano))
		pipe.ZAdd(b.Context(), "tenant:default:executions:open", redis.Z{Score: float64(at.UnixMilli()), Member: id})
		if i%1000 == 999 {
			flush()
		}
	}
	midnight := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range manyTimers {
		at := midnight
		if i%2 == 0 {
			at = midnight.Add(-time.Duration(i) * time.Second)
		}
		timer := event.Timer{Tenant: "default", Workflow: "shop.order", Execution: fmt.Sprintf("order-%06d", i%manyExecutions), TaskID: fmt.Sprintf("/do/%d/rest", i), FireAt: at, Kind: event.WaitTimer}
		_, score := timers.ID(timer)
		pipe.ZAdd(b.Context(), "flunq:timers:all", redis.Z{Score: score, Member: string(event.Encode(timer))})
		if i%1000 == 999 {
			flush()
		}
	}
	source, err := top.New(b.Context(), rdb, top.Defaults())
	if err != nil {
		b.Fatal(err)
	}
	return source
}

// BenchmarkTop shows that the cost of a page does not depend on its position or the number
// of rows.
func BenchmarkTop(b *testing.B) {
	source := crowded(b)
	deep := func(table tui.Table, pages int) string {
		q := tui.Query{Table: table, Limit: 1000}
		for range pages {
			page, err := source.Page(b.Context(), q)
			if err != nil || page.Next == "" {
				b.Fatal(page.Next, err)
			}
			q.After = page.Next
		}
		return q.After
	}
	page := func(name string, q tui.Query) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := source.Page(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	page("executions/first", tui.Query{Table: tui.Executions, Limit: 100})
	page("executions/deep", tui.Query{Table: tui.Executions, Limit: 100, After: deep(tui.Executions, 90)})
	page("executions/filtered", tui.Query{Table: tui.Executions, Limit: 100, Filter: tui.ParseFilter(tui.Executions, "id:order-0999")})
	page("executions/vain", tui.Query{Table: tui.Executions, Limit: 100, Filter: tui.ParseFilter(tui.Executions, "nothing")})
	page("timers/first", tui.Query{Table: tui.Timers, Limit: 100})
	page("timers/deep", tui.Query{Table: tui.Timers, Limit: 100, After: deep(tui.Timers, 900)})
	page("timers/filtered", tui.Query{Table: tui.Timers, Limit: 100, Filter: tui.ParseFilter(tui.Timers, "execution:order-099999")})
	page("timers/vain", tui.Query{Table: tui.Timers, Limit: 100, Filter: tui.ParseFilter(tui.Timers, "nothing")})
	b.Run("overview", func(b *testing.B) {
		for b.Loop() {
			if _, err := source.Overview(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
