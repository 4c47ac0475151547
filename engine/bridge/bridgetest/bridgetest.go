// Package bridgetest tests the guarantees of a bridge with any broker.
package bridgetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

// Tenant is the tenant whose events are exchanged.
const Tenant = "acme"

// Environment is a broker without messages.
type Environment struct {
	// Connect connects another process.
	Connect func() (bridge.Sink, bridge.Source)
	// Put sends a message to a topic as another program would.
	Put func(topic string, m cloudevents.Message)
	// Records waits until a topic has n messages and returns all of them, those of one key in order.
	Records func(topic string, n int) []cloudevents.Message

	Prefix          string // of the headers of attributes
	Out, In, Secure string // topics: for published events; to read; to read and trust
	Reads, Trusts   string // patterns for reading In and Secure; "": their names
	TooLarge        int    // size in bytes that the broker refuses
}

// Run runs all tests, or only the named ones, each in its own environment.
func Run(t *testing.T, start func(t *testing.T) Environment, names ...string) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*harness)
	}{
		{"out", testOut},
		{"failures", testFailures},
		{"refused", testRefused},
		{"in", testIn},
		{"start", testStart},
	} {
		if len(names) > 0 && !slices.Contains(names, test.name) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t)
			h := &harness{T: t, Environment: start(t), rdb: rdb, store: store.New(rdb, store.Options{}), rand: rand.New(rand.NewPCG(1, 2))}
			h.streams = stream.New(h.store)
			if h.Reads == "" {
				h.Reads, h.Trusts = h.In, h.Secure
			}
			if err := h.streams.Groups(t.Context(), Tenant); err != nil {
				t.Fatal(err)
			}
			test.run(h)
		})
	}
}

type harness struct {
	*testing.T
	Environment

	rdb       wire.Redis
	store     *store.Store
	streams   stream.Streams
	rand      *rand.Rand
	processes int

	seen map[bridge.What]int
}

const group = store.BridgePrefix + "test"

// process returns a new process that believes it is the bridge of the tenant, even if others are.
func (h *harness) process(st *store.Store, change func(*bridge.Options)) *bridge.Bridge {
	h.Helper()
	h.processes++
	sink, source := h.Connect()
	tenants := delivery.NewTenantSet(Tenant)
	tenants.Fix()
	opts := bridge.Options{
		Process: fmt.Sprintf("p%d", h.processes), Tenants: tenants, Lease: time.Minute, Group: group, Batch: 20, Block: 5 * time.Millisecond,
		Sink: sink, Topic: strings.ReplaceAll(h.Out, Tenant, bridge.TenantMark), Mode: cloudevents.Mode{Prefix: h.Prefix}, Emitted: true,
		Source: source, Listen: []string{h.Reads, h.Trusts}, Trusted: []string{h.Trusts}, Default: Tenant,
		Observe: func(a bridge.Activity) { h.seen[a.What] += a.Count },
	}
	h.seen = map[bridge.What]int{}
	if change != nil {
		change(&opts)
	}
	b, err := bridge.New(st, opts)
	if err != nil {
		h.Fatal(err)
	}
	if err := h.rdb.Del(h.Context(), st.Keys().BridgeOwner(Tenant)).Err(); err != nil {
		h.Fatal(err)
	}
	for _, err := b.Step(h.Context()); err != nil; _, err = b.Step(h.Context()) {
	}
	return b
}

// until repeats done until it returns true, for at most two minutes.
func (h *harness) until(what string, done func() bool) {
	h.Helper()
	const patience = 2 * time.Minute
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			h.Fatalf("%s: not in %s", what, patience)
		}
	}
}

// published reports whether the group has acknowledged everything.
func (h *harness) published() bool {
	for _, g := range h.rdb.XInfoGroups(h.Context(), h.store.Keys().Stream(Tenant)).Val() {
		if g.Name == group {
			return g.Lag == 0 && g.Pending == 0
		}
	}
	return false
}

// emit appends events to the stream, and returns, for each execution, the ids of the entries to be
// published.
func (h *harness) emit(n int) map[string][]string {
	h.Helper()
	out := map[string][]string{}
	for i := range n {
		e := event.Event{
			ID: fmt.Sprintf("e%d", i), Source: "/shop", Type: "com.example.paid", Time: time.Unix(1_700_000_000, int64(i)).UTC(),
			Workflow: "shop.order", Execution: fmt.Sprintf("order-%d", h.rand.IntN(7)), Data: event.Encode(i),
		}
		wanted := true
		switch h.rand.IntN(8) {
		case 0:
			e.Type, wanted = event.TaskRequested, false
		case 1:
			e.Ext, wanted = map[string]string{cloudevents.OriginAttribute: "in/0/1"}, false
		case 2:
			e.Ext, wanted = map[string]string{event.AttemptAttribute: "1"}, false
		}
		id, err := h.rdb.XAdd(h.Context(), &redis.XAddArgs{Stream: h.store.Keys().Stream(Tenant), Values: e.Fields()}).Result()
		if err != nil {
			h.Fatal(err)
		}
		if wanted {
			out[e.Execution] = append(out[e.Execution], id)
		}
	}
	return out
}

// check checks what a reader receives that drops duplicates by their entry ids.
func (h *harness) check(want map[string][]string) (duplicates int) {
	h.Helper()
	n := 0
	for _, ids := range want {
		n += len(ids)
	}
	got := map[string][]string{}
	for _, m := range h.Records(h.Out, n) {
		key, entry := string(m.Key), m.Header(cloudevents.EntryHeader)
		if known := got[key]; len(known) > 0 && store.CompareIDs(entry, known[len(known)-1]) <= 0 {
			duplicates++
			continue
		}
		got[key] = append(got[key], entry)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(got[key], want[key]) {
			h.Errorf("entries of %s: %v, want %v", key, got[key], want[key])
		}
	}
	if len(got) != len(want) {
		h.Errorf("%d keys, want %d", len(got), len(want))
	}
	return duplicates
}

// Without failures each event is published once, in order, with its attributes.
func testOut(h *harness) {
	want := h.emit(150)
	b := h.process(h.store, nil)
	h.until("publish", func() bool {
		if _, err := b.Out.Step(h.Context()); err != nil {
			h.Fatal(err)
		}
		return h.published()
	})
	if duplicates := h.check(want); duplicates > 0 {
		h.Errorf("%d duplicates without a failure", duplicates)
	}
	m := h.Records(h.Out, 1)[0]
	media := "content-type"
	if h.Prefix == cloudevents.NATSPrefix {
		media = h.Prefix + "datacontenttype"
	}
	for name, value := range map[string]string{
		h.Prefix + "specversion": "1.0", h.Prefix + "source": "/shop", h.Prefix + "type": "com.example.paid", h.Prefix + "tenantid": Tenant,
		h.Prefix + "workflowid": "shop.order", h.Prefix + "executionid": string(m.Key), media: "application/json",
	} {
		if got := m.Header(name); got != value {
			h.Errorf("header %s is %q, want %q", name, got, value)
		}
	}
	if !json.Valid(m.Value) {
		h.Errorf("value %q, want the event's data", m.Value)
	}
}

// errLost reports a lost reply: the caller does not know whether the message was published.
var errLost = errors.New("the reply was lost")

// unreliable is a sink that publishes all of a batch, some of it or nothing, and may lose the reply.
type unreliable struct {
	bridge.Sink
	rand *rand.Rand
}

// Publish implements bridge.Sink.
func (u unreliable) Publish(ctx context.Context, messages []cloudevents.Message) []error {
	errs := make([]error, len(messages))
	var send []cloudevents.Message
	var at []int
	kind := u.rand.IntN(4)
	for i := range messages {
		if kind == 0 || kind == 1 && u.rand.IntN(2) == 0 {
			errs[i] = errLost
			continue
		}
		send, at = append(send, messages[i]), append(at, i)
	}
	for i, err := range u.Sink.Publish(ctx, send) {
		errs[at[i]] = err
		if kind == 2 {
			errs[at[i]] = errLost
		}
	}
	return errs
}

// flaky makes Redis commands fail, before or after they are executed.
type flaky struct{ rand *rand.Rand }

// DialHook implements redis.Hook.
func (flaky) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (f flaky) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.fail(func() error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (f flaky) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return f.fail(func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (f flaky) fail(do func() error, cmds ...redis.Cmder) error {
	const rare = 12
	kind := f.rand.IntN(rare)
	if kind > 1 {
		return do()
	}
	if kind == 0 {
		_ = do() // the command is executed, but its reply is lost
	}
	for _, cmd := range cmds {
		cmd.SetErr(errLost)
	}
	return errLost
}

// unreliableStore returns a store whose Redis loses commands and replies.
func (h *harness) unreliableStore() *store.Store {
	client := redis.NewClient(&redis.Options{Addr: redistest.AddrOf(h.T, h.rdb), MaxRetries: -1})
	h.Cleanup(func() { _ = client.Close() })
	client.AddHook(flaky{h.rand})
	return store.New(client, store.Options{})
}

// Whatever fails, whichever process dies and however many believe that they are the bridge of the
// tenant, every event is published, and a reader that drops duplicates by their entry ids has them
// in order.
func testFailures(h *harness) {
	st := h.unreliableStore()
	start := func() *bridge.Bridge {
		return h.process(st, func(o *bridge.Options) { o.Sink = unreliable{o.Sink, h.rand} })
	}
	want := map[string][]string{}
	both := []*bridge.Bridge{start(), start()}
	for range 6 {
		for key, ids := range h.emit(40) {
			want[key] = append(want[key], ids...)
		}
		for range 25 {
			i := h.rand.IntN(len(both))
			_, _ = both[i].Out.Step(h.Context()) // it often fails
			if h.rand.IntN(10) == 0 {
				both[i] = start()
			}
		}
	}
	h.until("publish", func() bool {
		_, _ = both[h.rand.IntN(len(both))].Out.Step(h.Context())
		return h.published()
	})
	h.Logf("%d processes, %d duplicates", h.processes, h.check(want))
}

// An event that the broker will never accept becomes a dead letter, and holds up nothing.
func testRefused(h *harness) {
	add := func(id, data string) {
		if err := h.store.Publish(h.Context(), event.Event{
			ID: id, Source: "/s", Type: "com.example.x", Tenant: Tenant, Execution: "one", Data: json.RawMessage(data),
		}); err != nil {
			h.Fatal(err)
		}
	}
	add("1", `1`)
	noise := make([]byte, h.TooLarge) // incompressible
	for i := range noise {
		noise[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[h.rand.IntN(64)]
	}
	add("2", `"`+string(noise)+`"`)
	add("3", `3`)
	b := h.process(h.store, nil)
	h.until("publish", func() bool {
		_, _ = b.Out.Step(h.Context())
		return h.published()
	})
	var ids []string
	for _, m := range h.Records(h.Out, 2) {
		ids = append(ids, m.Header(h.Prefix+"id"))
	}
	if !slices.Equal(ids, []string{"1", "3"}) {
		h.Errorf("published %v, want 1 and 3", ids)
	}
	dead, _, err := h.streams.DeadLetters(h.Context(), stream.DeadLetterQuery{Range: store.Range{Count: 10}, Tenant: Tenant})
	if err != nil || len(dead) != 1 || dead[0].Event.ID != "2" || dead[0].Service != group || !strings.Contains(dead[0].Reason, h.Out) {
		h.Errorf("the dead letters are %+v, %v; want event 2 with a reason that names topic %s", dead, err, h.Out)
	}
}

// attributes returns the headers of an event.
func (h *harness) attributes(id string, typ event.Type) []cloudevents.Header {
	return []cloudevents.Header{
		{Name: h.Prefix + "specversion", Value: "1.0"},
		{Name: h.Prefix + "id", Value: id},
		{Name: h.Prefix + "source", Value: "/other"},
		{Name: h.Prefix + "type", Value: string(typ)},
		{Name: h.Prefix + "tenantid", Value: "somebody-else"},
		{Name: "content-type", Value: "application/json"},
	}
}

// Whatever fails and whichever process dies, each message becomes one entry, in the order of its
// partition, or one dead letter.
func testIn(h *harness) {
	const n = 120
	entries, deadLetters := map[string]bool{}, 0
	put := func(i int) {
		id := fmt.Sprint("m", i)
		m := cloudevents.Message{Key: fmt.Appendf(nil, "k%d", i%5), Value: fmt.Appendf(nil, `{"n":%d}`, i), Headers: h.attributes(id, "com.example.in")}
		topic := h.In
		switch h.rand.IntN(6) {
		case 0:
			m.Headers = nil // not an event
			deadLetters++
		case 1:
			m.Headers = h.attributes(id, event.TaskCompleted) // forged
			deadLetters++
		case 2:
			topic = h.Secure
			m.Headers = h.attributes(id, event.TaskCompleted)
			entries[id] = true
		default:
			entries[id] = true
		}
		h.Put(topic, m)
	}
	st := h.unreliableStore()
	both := []*bridge.Bridge{h.process(st, nil), h.process(st, nil)}
	for i := range n {
		put(i)
	}
	keys := h.store.Keys()
	steps := 0
	h.until("take", func() bool {
		steps++
		i := h.rand.IntN(len(both))
		_, _ = both[i].In.Step(h.Context())
		if steps%15 == 0 && h.processes < 12 {
			both[i] = h.process(st, nil)
		}
		return h.rdb.XLen(h.Context(), keys.Stream(Tenant)).Val() >= int64(len(entries)) &&
			h.rdb.XLen(h.Context(), keys.DeadLetters(Tenant)).Val() >= int64(deadLetters)
	})
	again := h.process(h.store, nil) // everything has been taken
	for range 10 {
		if _, err := again.In.Step(h.Context()); err != nil {
			h.Fatal(err)
		}
	}
	last := map[string]int{}
	for _, x := range h.rdb.XRange(h.Context(), keys.Stream(Tenant), "-", "+").Val() {
		id, _ := x.Values["id"].(string)
		if !entries[id] {
			h.Errorf("entry %v is a duplicate or unexpected", x.Values)
		}
		delete(entries, id)
		if x.Values["time"] == nil {
			h.Errorf("entry %s has no time", id)
		}
		if x.Values["tenantid"] != Tenant {
			h.Errorf("entry %s has tenant %v", id, x.Values["tenantid"])
		}
		var place, number int
		origin, _ := x.Values[cloudevents.OriginAttribute].(string)
		_, _ = fmt.Sscanf(origin[strings.LastIndexByte(origin, '/')+1:], "%d", &place)
		_, _ = fmt.Sscanf(id, "m%d", &number)
		partition := origin[:strings.LastIndexByte(origin, '/')]
		if before, known := last[partition]; known && place <= before {
			h.Errorf("%s of %s comes after %d", origin, id, before)
		}
		last[partition] = place
	}
	if len(entries) > 0 {
		h.Errorf("%d messages are missing", len(entries))
	}
	dead, _, err := h.streams.DeadLetters(h.Context(), stream.DeadLetterQuery{Range: store.Range{Count: n}, Tenant: Tenant})
	if err != nil || len(dead) != deadLetters {
		h.Errorf("%d dead letters, want %d: %v", len(dead), deadLetters, err)
	}
	for _, l := range dead {
		if l.Service != group || l.SourceID == "" || !strings.Contains(l.SourceStream, "/") ||
			!strings.Contains(l.Reason, "not a CloudEvent") && !strings.Contains(l.Reason, "only from trusted topics") {
			h.Errorf("the dead letter is %+v, want its source, and as reason no CloudEvent or an untrusted topic", l)
		}
	}
	h.Logf("%d processes, %d steps", h.processes, steps)
}

// An event whose type starts a workflow starts it. If the event is sent again, the execution has the same
// id. A start that is refused becomes a dead letter.
func testStart(h *harness) {
	started := map[string]int{}
	change := func(o *bridge.Options) {
		o.Workflows = map[event.Type]string{"com.example.order": "order:1"}
		o.Start = func(_ context.Context, s bridge.Start) error {
			if s.Workflow != "order:1" || s.Tenant != Tenant || !strings.Contains(string(s.Input), `"n"`) {
				h.Errorf("asked to start %+v, want order:1 of tenant %s with n as input", s, Tenant)
			}
			if strings.Contains(string(s.Input), "-1") {
				return fmt.Errorf("%w: there is no such workflow", cloudevents.ErrRefused)
			}
			started[s.ID]++
			return nil
		}
	}
	for _, n := range []int{1, 2, 2, -1, 3} {
		h.Put(h.In, cloudevents.Message{Value: fmt.Appendf(nil, `{"n":%d}`, n), Key: []byte("k"), Headers: h.attributes(fmt.Sprint("m", n), "com.example.order")})
	}
	b := h.process(h.store, change)
	keys := h.store.Keys()
	h.until("take", func() bool {
		if _, err := b.In.Step(h.Context()); err != nil {
			h.Error(err)
		}
		return h.rdb.XLen(h.Context(), keys.Stream(Tenant)).Val() >= 4 && h.rdb.XLen(h.Context(), keys.DeadLetters(Tenant)).Val() >= 1
	})
	if len(started) != 3 {
		h.Errorf("started %v, want three executions", started)
	}
}
