package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// many exceeds one page of anything.
const many = 1234

// crashesKey holds the crash counts of the tenant's messages.
const crashesKey = "tenant:acme:events:deaths"

// nth returns the names of many things, sorted.
func nth(prefix string) (names []string) {
	for i := range many {
		names = append(names, fmt.Sprintf("%s%04d", prefix, i))
	}
	return names
}

// manyOfAll are checks with many of each thing.
var manyOfAll = []check{
	{"many listeners are each listed once, even if in two sets", func(t *testing.T, w *environment) {
		all := nth("x")
		for _, name := range all {
			must(t, w.rdb.SAdd(t.Context(), "tenant:acme:listen:com.paid", name).Err())
		}
		must(t, w.rdb.SAdd(t.Context(), "tenant:acme:listen:*", "x0007", "y").Err())
		got, err := w.Listeners(t.Context(), tenant, "com.paid")
		must(t, err)
		if want := append(slices.Clone(all), "y"); !slices.Equal(got, want) {
			t.Errorf("%d listen, want %d", len(got), len(want))
		}
		enough, n := errors.New("enough"), 0
		err = w.EachListener(t.Context(), tenant, "com.paid", func(string) error {
			n++
			return enough
		})
		if n != 1 || !errors.Is(err, enough) {
			t.Errorf("%d calls until the error, %v, want one", n, err)
		}
	}},
	{"many tenants are listed", func(t *testing.T, w *environment) {
		all := append([]string{tenant}, nth("t")...)
		must(t, w.rdb.SAdd(t.Context(), "flunq:tenants", "No tenant!").Err())
		for _, name := range all {
			must(t, w.rdb.SAdd(t.Context(), "flunq:tenants", name).Err())
		}
		got, err := w.Tenants(t.Context())
		must(t, err)
		n, err := w.TenantCount(t.Context())
		if n != many+2 || err != nil || !slices.Equal(got, all) {
			t.Errorf("%d tenants are known and %d counted, %v, want %d", len(got), n, err, len(all))
		}
	}},
	{"each of many tenants gets its own messages, even if one is broken", func(t *testing.T, w *environment) {
		tenants := []string{"a", "b", "broken", "c"}
		for i := range 200 {
			tenants = append(tenants, fmt.Sprintf("t%03d", i))
		}
		r := stream.Reader{Group: store.WorkerGroup, Consumer: "c", Tenants: tenants}
		for _, name := range []string{"a", "c", "t150", "broken"} {
			w.starting(t, name)
		}
		for _, name := range tenants {
			must(t, stream.New(w.Store).Groups(t.Context(), name))
		}
		got, err := stream.New(w.Store).Read(t.Context(), r, 10, 0)
		msgs := got.Messages
		must(t, err)
		if got, want := tenantsOf(msgs), []string{"a", "broken", "c", "t150"}; !slices.Equal(got, want) {
			t.Errorf("there are messages of %v, want %v", got, want)
		}
		must(t, stream.New(w.Store).Release(t.Context(), msgs...))
		must(t, w.rdb.Set(t.Context(), "tenant:broken:events", "no stream", 0).Err())
		now, err := w.Now(t.Context())
		must(t, err)
		claimed, _, err := stream.New(w.Store).ClaimAbandoned(t.Context(), r, 30*time.Second, 10, now)
		if got, want := tenantsOf(claimed), []string{"a", "c", "t150"}; !slices.Equal(got, want) || err == nil {
			t.Errorf("%v is claimed, %v, want %v and an error", got, err, want)
		}
		if _, err := stream.New(w.Store).Trim(t.Context(), tenants, 0, 0); err == nil {
			t.Error("no error about the broken stream")
		}
	}},
	{"crash counts of many messages are removed", func(t *testing.T, w *environment) {
		must(t, stream.New(w.Store).Groups(t.Context(), tenant))
		for i := range many {
			must(t, w.rdb.HSet(t.Context(), crashesKey, fmt.Sprintf("%s 1-%d", store.WorkerGroup, i), "1").Err())
		}
		must(t, stream.New(w.Store).ForgetCrashes(t.Context(), "nobody", tenant))
		if n := w.rdb.HLen(t.Context(), crashesKey).Val(); n != 0 {
			t.Errorf("%d are left", n)
		}
	}},
}

// starting publishes an event of a tenant.
func (w *environment) starting(t *testing.T, tenant string) {
	t.Helper()
	must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "tenant:" + tenant + ":events", Values: []string{"id", "1", "type", "com.paid"}}).Err())
}

// tenantsOf returns the tenants of messages, in order.
func tenantsOf(msgs []store.Message) (tenants []string) {
	for _, m := range msgs {
		tenants = append(tenants, m.Tenant)
	}
	return tenants
}
