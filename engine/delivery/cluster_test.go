package delivery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
)

// While a master of a cluster is down, the leases of the other tenants' messages are renewed, and their
// abandoned entries are claimed.
func TestMasterIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	st := store.New(cluster.Client(t), store.Options{})
	tenants := map[*redistest.Server]string{} // one of each master
	for i := 0; len(tenants) < 3; i++ {
		tenant := fmt.Sprint("t-", i)
		tenants[cluster.MasterOf(t, st.TenantKeys(tenant).Stream)] = tenant
	}
	shared := cluster.MasterOf(t, st.ClockKey())
	down, up := "", tenants[shared]
	for master, tenant := range tenants {
		must(t, stream.New(st).Groups(t.Context(), tenant))
		if master != shared {
			down = tenant
		}
	}
	must(t, st.Publish(t.Context(), event.Event{ID: "1", Source: "/test", Type: "com.x", Tenant: up}))
	must(t, st.Redis().XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: store.WorkerGroup, Consumer: "dead", Streams: []string{st.TenantKeys(up).Stream, ">"}, Block: -1,
	}).Err())
	cluster.MasterOf(t, st.TenantKeys(down).Stream).Kill()

	var lost []store.Message
	renewal := delivery.NewRenewal(st, []delivery.Holder{{
		Held: func() []store.Message {
			return []store.Message{
				{Tenant: down, Group: store.WorkerGroup, Consumer: "w1", ID: "1-0"}, {Tenant: up, Group: store.WorkerGroup, Consumer: "w1", ID: "1-0"},
			}
		},
		Lost: func(msgs []store.Message) { lost = append(lost, msgs...) },
	}}, time.Second)
	if _, err := renewal.Step(t.Context()); err == nil || len(lost) != 1 || lost[0].Tenant != up {
		t.Errorf("%v are lost, error %v; want the message of %s, and an error about %s", lost, err, up, down)
	}

	opts := delivery.Defaults("worker", store.WorkerGroup)
	opts.Consumer, opts.Tenants, opts.Lease = "w1", delivery.NewTenantSet(down, up), 10*time.Millisecond
	c, err := delivery.NewConsumer(st, opts)
	must(t, err)
	time.Sleep(opts.Lease)
	if f, err := c.Fetch(t.Context(), 10, time.Millisecond); len(f.Messages) != 1 || f.Messages[0].Tenant != up {
		t.Errorf("%d messages are claimed, error %v; want that of %s", len(f.Messages), err, up)
	}
}
