package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// Timers whose score is before their fire_at, as other programs may write them, do not
// delay other timers: their scores are corrected.
func TestMisplacedTimers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		for i := range 40 {
			member := fmt.Sprintf(`{"tenant_id":"other","workflow_id":"w","execution_id":"x-%d","task_id":"/do/0/w","fire_at":%q,"kind":"wait"}`, i, at.Format(time.RFC3339))
			if err := rdb.ZAdd(t.Context(), "flunq:timers:all", redis.Z{Score: float64(i), Member: member}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		e := newEngine(t, rdb, "one")
		run(t, e)
		start(t, e, "x", "do:\n  - rest: {wait: {milliseconds: 50}}\n", "{}")
		ends(t, e, tenant, "x")
		for _, z := range rdb.ZRangeWithScores(t.Context(), "flunq:timers:all", 0, -1).Val() {
			if z.Score != float64(at.Unix()) {
				t.Errorf("%s has the score %v, want %d", z.Member, z.Score, at.Unix())
			}
		}
		if n := rdb.ZCard(t.Context(), "flunq:timers:all").Val(); n != 40 {
			t.Errorf("%d timers are left, want 40", n)
		}
	})
}
