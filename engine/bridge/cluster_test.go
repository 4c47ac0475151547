package bridge_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/sim/broker"
)

// While a master of a cluster is down, the events of the tenants on other masters are published, and
// records are taken in for them.
func TestMasterIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	st := store.New(cluster.Client(t), store.Options{})
	dies := cluster.MasterOf(t, st.ClockKey())
	up, down := "", ""
	for i := 0; up == "" || down == ""; i++ {
		if tenant := fmt.Sprint("t-", i); cluster.MasterOf(t, st.Keys().Stream(tenant)) == dies {
			down = tenant
		} else {
			up = tenant
		}
	}
	exchange := broker.NewExchange(1, "out-"+up, "out-"+down, "in-"+up, "in-"+down)
	tenants := delivery.NewTenantSet(up, down)
	tenants.Fix()
	b, err := bridge.New(st, bridge.Options{
		Process: "p", Tenants: tenants, Lease: time.Minute, Group: "bridge-kafka", Batch: 20, Block: time.Millisecond,
		Emitted: true, Sink: exchange.Client(), Topic: "out-{tenant}", Source: exchange.Client(), Listen: []string{"in-{tenant}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{up, down} {
		if err := stream.New(st).Groups(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
	dies.Kill()

	if err := st.Publish(t.Context(), event.Event{ID: "1", Source: "/test", Type: "com.x", Tenant: up}); err != nil {
		t.Fatal(err)
	}
	headers := []cloudevents.Header{
		{Name: "ce_specversion", Value: "1.0"}, {Name: "ce_id", Value: "2"}, {Name: "ce_source", Value: "/shop"}, {Name: "ce_type", Value: "com.y"},
	}
	if err := exchange.Put(cloudevents.Message{Topic: "in-" + up, Headers: headers}); err != nil {
		t.Fatal(err)
	}
	taken := func() bool {
		last := st.Redis().XRevRangeN(t.Context(), st.Keys().Stream(up), "+", "-", 1).Val()
		return len(last) == 1 && last[0].Values["type"] == "com.y"
	}
	for end := time.Now().Add(20 * time.Second); len(exchange.Records("out-"+up)) == 0 || !taken(); {
		var errs []error
		for _, step := range []func(context.Context) (time.Time, error){b.Step, b.Out.Step, b.In.Step} {
			_, err := step(t.Context())
			errs = append(errs, err)
		}
		if time.Now().After(end) {
			t.Fatalf("%d events of %s are published, records taken: %v; the last errors were %v", len(exchange.Records("out-"+up)), up, taken(), errs)
		}
	}
}
