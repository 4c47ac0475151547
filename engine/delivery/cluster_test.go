package delivery_test

import (
	"fmt"
	"strings"
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
	dies := cluster.MasterOf(t, st.ClockKey()) // of all masters, services need this one most
	up := ""
	var down []string // two tenants of this master
	for i := 0; up == "" || len(down) < 2; i++ {
		tenant := fmt.Sprint("t-", i)
		if cluster.MasterOf(t, st.Keys().Stream(tenant)) == dies {
			down = append(down, tenant)
		} else {
			up = tenant
		}
		must(t, stream.New(st).Groups(t.Context(), tenant))
	}
	must(t, st.Publish(t.Context(), event.Event{ID: "1", Source: "/test", Type: "com.x", Tenant: up}))
	must(t, st.Redis().XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: store.WorkerGroup, Consumer: "dead", Streams: []string{st.Keys().Stream(up), ">"}, Block: -1,
	}).Err())
	dies.Kill()

	var lost []store.Message
	renewal := delivery.NewRenewal(st, []delivery.Holder{{
		Held: func() []store.Message {
			var msgs []store.Message
			for _, tenant := range append(down, up) {
				msgs = append(msgs, store.Message{Tenant: tenant, Group: store.WorkerGroup, Consumer: "w1", ID: "1-0"})
			}
			return msgs
		},
		Lost: func(msgs []store.Message) { lost = append(lost, msgs...) },
	}}, time.Second)
	_, err := renewal.Step(t.Context())
	if len(lost) != 1 || lost[0].Tenant != up {
		t.Errorf("%v are lost, want the message of %s", lost, up)
	}
	if err == nil || strings.Count(err.Error(), "renew or release a lease") != 1 {
		t.Errorf("error %v, want one, since the master of two tenants is asked once", err)
	}

	opts := delivery.Defaults("worker", store.WorkerGroup)
	opts.Consumer, opts.Tenants, opts.Lease = "w1", delivery.NewTenantSet(append(down, up)...), 10*time.Millisecond
	c, err := delivery.NewConsumer(st, opts)
	must(t, err)
	time.Sleep(opts.Lease)
	if f, err := c.Fetch(t.Context(), 10, time.Millisecond); len(f.Messages) != 1 || f.Messages[0].Tenant != up {
		t.Errorf("%d messages are claimed, error %v; want that of %s", len(f.Messages), err, up)
	}
}
