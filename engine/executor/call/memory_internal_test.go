package call

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A tenant gets at most half of the memory, other tenants overtake its waiting requests,
// and a request that gives up does not block others.
func TestQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		q := newQuota(100 * mib)
		take := func(tenant string, n int) chan error {
			done := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := q.reserve(ctx, tenant, n)
				done <- err
			}()
			synctest.Wait()
			return done
		}
		has := func(c chan error) bool { return len(c) == 1 }
		first, second, third := take("a", 40*mib), take("a", 20*mib), take("a", 10*mib)
		other := take("b", 50*mib)
		if !has(first) || has(second) || has(third) || !has(other) {
			t.Fatal("want the first of a, and b, and no other")
		}
		if tiny := take("c", Uncounted); !has(tiny) {
			t.Error("a request for little memory waits")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := <-second; !errors.Is(err, ErrMemory) {
			t.Errorf("a request that waited too long: %v, want ErrMemory", err)
		}
		if err := <-third; err == nil { // it got its memory at the last moment
			q.release("a", 10*mib)
		}
		fourth := take("a", 10*mib)
		if !has(fourth) {
			t.Error("requests that gave up block the next one")
		}
		q.release("a", 40*mib)
		q.release("a", 10*mib)
		q.release("b", 50*mib)
		if q.used != 0 || len(q.of) != 0 || len(q.waiting) != 0 {
			t.Errorf("%d bytes of %v are left, and %d wait", q.used, q.of, len(q.waiting))
		}
		if n, err := q.reserve(t.Context(), "a", 400*mib); n != 50*mib || err != nil {
			t.Errorf("a request for more than there is: %d bytes, %v, want half of all", n, err)
		}
	})
}
