package scheduling

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/broker"
)

// The names of a simulation of bridges.
const (
	bridgeTenant = "default"
	bridgeGroup  = store.BridgePrefix + "kafka"
	eventsTopic  = "flunq." + bridgeTenant + ".events"
	inTopic      = "flunq." + bridgeTenant + ".in"
	resultsTopic = "results" // the only trusted one
)

// bridges holds the broker of a simulation of bridges, and checks what was sent to each side against
// what its reader received.
type bridges struct {
	exchange *broker.Exchange
	keys     store.Keys
	checker  *checker
	acked    func() bool // the group has acknowledged everything

	names map[string]string   // of the events, by entry id
	sent  map[string][]string // entry ids to publish, by key, in order
	got   map[string][]string // entry ids that a reader without duplicates has received, by key
	twice int                 // messages that the reader dropped

	put   map[string]message // by place
	taken map[string]bool    // by place
	last  map[string]int     // the last offset taken, by partition
}

// message is a message from outside.
type message struct {
	name string
	dead bool // it cannot be an entry of the stream
}

// bridgeSetting returns the setting of a seed.
func bridgeSetting(seed uint64) Setting {
	one := func(name string, of ...int) int { return of[sim.Choice(seed, name)%uint64(len(of))] }
	return Setting{
		Processes: one("processes", 1, 2, 2, 3), Partitions: one("partitions", 1, 2, 3), Batch: one("batch", 1, 3, 50),
		Lease: time.Duration(one("lease", 3, 10)) * time.Second, Events: one("events", 4, 8, 16),
		Latency: time.Duration(one("latency", 0, 1, 20)) * time.Millisecond,
	}
}

// openBridges starts the broker.
func (s *simulation) openBridges() {
	s.setting = bridgeSetting(s.plan.Seed)
	b := &bridges{
		exchange: broker.NewExchange(s.setting.Partitions, eventsTopic, inTopic, resultsTopic), checker: s.checker,
		names: map[string]string{}, sent: map[string][]string{}, got: map[string][]string{},
		put: map[string]message{}, taken: map[string]bool{}, last: map[string]int{},
	}
	b.acked = func() bool {
		pending := s.redis.Do("XPENDING", b.keys.Stream(bridgeTenant), bridgeGroup)
		return len(pending.List) == 0 || pending.List[0].Int == 0
	}
	s.bridges = b
	s.redis.Added = func(key string, fields []string) { b.added(s, key, fields) }
	s.redis.Do("XGROUP", "CREATE", b.keys.Stream(bridgeTenant), bridgeGroup, "0", "MKSTREAM")
}

// bridgeEvent puts an event, or a message from outside, on the timeline.
func (s *simulation) bridgeEvent(n int) {
	name := fmt.Sprintf("event %d", n)
	s.names[name] = name
	s.at(sim.Epoch().Add(begin+s.span(name+" start", 20*time.Second)), func() { s.bridges.begin(s, name) })
}

// begin adds an event to the stream, or sends a message from outside.
func (b *bridges) begin(s *simulation, name string) {
	n := s.chance(name, 0)
	e := event.Event{ID: name, Source: "/sim", Type: "com.example.e", Execution: fmt.Sprintf("x-%d", n%3), Data: event.Encode(name)}
	if n/3%2 == 0 {
		wanted := n/6%4 > 0
		if !wanted {
			e.Type = event.TaskRequested
		}
		entry := s.redis.Do(append([]string{"XADD", b.keys.Stream(bridgeTenant), "*"}, e.Fields()...)...).Text
		s.log("the engine", "adds "+entry+" of type "+string(e.Type), name)
		if wanted {
			b.names[entry] = name
			b.sent[e.Execution] = append(b.sent[e.Execution], entry)
		}
		return
	}
	topic, dead := inTopic, false
	switch n / 6 % 4 {
	case 0: // a result from an untrusted sender
		e.Type, dead = event.TaskCompleted, true
	case 1:
		e.Type, topic = event.TaskCompleted, resultsTopic
	}
	m := cloudevents.Mode{Prefix: cloudevents.KafkaPrefix}.Encode(e, "")
	m.Topic = topic
	if n/24%5 == 0 {
		m.Headers, dead = nil, true
	}
	if err := b.exchange.Put(m); err != nil {
		panic(err)
	}
	for _, known := range b.exchange.Records(topic) {
		if _, before := b.put[known.Place()]; !before {
			b.put[known.Place()] = message{name, dead}
			s.log("another program", fmt.Sprintf("sends a message of type %s to %s", e.Type, known.Place()), name)
		}
	}
}

// bridgeRest is how long an actor of a bridge rests between two steps.
const bridgeRest = 300 * time.Millisecond

// bootBridge starts a process that is a bridge.
func (s *simulation) bootBridge(p *process) {
	g := &s.setting
	tenants := delivery.NewTenantSet(bridgeTenant)
	tenants.Fix()
	rdb := wire.NewClient(s.client)
	client := &bridgeClient{s.bridges.exchange.Client(), s}
	opts := bridge.Options{
		Process: p.name(), Tenants: tenants, Lease: g.Lease, Group: bridgeGroup, Batch: g.Batch, Sink: client, Source: client,
		Topic: "flunq.{tenant}.events", Mode: cloudevents.Mode{Prefix: cloudevents.KafkaPrefix}, Emitted: true,
		Listen: []string{"flunq.{tenant}.in", resultsTopic}, Trusted: []string{resultsTopic}, Default: bridgeTenant,
	}
	if s.mistake.Bridge != nil {
		s.mistake.Bridge(&opts, rdb)
	}
	b, err := bridge.New(store.New(rdb, store.Options{}), opts)
	if err != nil {
		panic(err)
	}
	for _, one := range []struct {
		name string
		step func(context.Context) (time.Time, error)
	}{{"owner", b.Step}, {"out", b.Out.Step}, {"in", b.In.Step}} {
		s.start(&actor{name: one.name + " of " + p.name(), process: p}, func(a *actor) {
			s.loop(a, func(ctx context.Context) (time.Duration, error) {
				a.idle = true
				_, err := one.step(ctx)
				return bridgeRest, err
			})
		})
	}
}

// bridgeClient makes each publication and each fetch a call. It implements bridge.Sink and
// bridge.Source.
type bridgeClient struct {
	*broker.Client

	s *simulation
}

// Publish implements bridge.Sink.
func (c *bridgeClient) Publish(ctx context.Context, messages []cloudevents.Message) []error {
	errs := make([]error, len(messages))
	for i := range messages {
		m := &messages[i]
		entry := m.Header(cloudevents.EntryHeader)
		done := c.s.enter("publish "+entry, c.s.bridges.names[entry])
		errs[i] = c.s.call(toKafka, "produce", func() error {
			err := c.Client.Publish(ctx, messages[i:i+1])[0]
			if err == nil {
				c.s.bridges.published(c.s, m)
			}
			return err
		})
		done()
	}
	return errs
}

// Fetch implements bridge.Source.
func (c *bridgeClient) Fetch(ctx context.Context, topics []string, after func(string) (cloudevents.Position, bool)) (out []cloudevents.Message, err error) {
	read := c.Copy()
	err = c.s.call(toKafka, "fetch", func() (err error) {
		out, err = read.Fetch(ctx, topics, after)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.Client = read
	return out, nil
}

// published shows a message to the reader.
func (b *bridges) published(s *simulation, m *cloudevents.Message) {
	key, entry := string(m.Key), m.Header(cloudevents.EntryHeader)
	known := b.got[key]
	s.log("the reader of "+eventsTopic, "receives "+entry, b.names[entry])
	if len(known) > 0 && store.CompareIDs(entry, known[len(known)-1]) <= 0 {
		b.twice++
		return
	}
	if want := b.sent[key]; len(known) >= len(want) || want[len(known)] != entry {
		b.checker.report("the events of an execution are published in order", b.names[entry],
			"%s of %s came after %d of %v", entry, key, len(known), want)
	}
	b.got[key] = append(known, entry)
	b.checker.published++
}

// added checks an entry that is added to a stream of the tenant.
func (b *bridges) added(s *simulation, key string, fields []string) {
	value := func(name string) string { return sim.Field(fields, name) }
	dead := key == b.keys.DeadLetters(bridgeTenant)
	place := value(cloudevents.OriginAttribute)
	if dead {
		place = value("source_stream") + "/" + value("source_id")
	} else if key != b.keys.Stream(bridgeTenant) || place == "" {
		return
	}
	m, form := b.put[place], "an entry"
	if dead {
		form = "a dead letter"
	}
	s.log("the tenant", "takes "+place+" as "+form, m.name)
	if b.taken[place] {
		b.checker.report("each message is taken once", m.name, "%s was taken twice", place)
		return
	}
	b.taken[place] = true
	at := strings.LastIndexByte(place, '/')
	offset, _ := strconv.Atoi(place[at+1:])
	if last, known := b.last[place[:at]]; known && offset <= last {
		b.checker.report("the messages of a partition stay in order", m.name, "%s was taken after %d", place, last)
	}
	b.last[place[:at]] = offset
	switch {
	case dead && !m.dead:
		b.checker.report("a readable message does not become a dead letter", m.name, "%s: %s", place, value("reason"))
	case !dead && m.dead:
		b.checker.report("only trusted topics bring results of tasks", m.name, "%s became an entry of type %s", place, value("type"))
	}
}

// open returns how many events and messages are not delivered yet.
func (b *bridges) open() int {
	n := len(b.put) - len(b.taken)
	for key, want := range b.sent {
		n += max(len(want)-len(b.got[key]), 0)
	}
	if !b.acked() {
		n++
	}
	return n
}

// finish checks what is left at the end.
func (b *bridges) finish(s *simulation) {
	for _, key := range slices.Sorted(maps.Keys(b.sent)) {
		for _, entry := range b.sent[key][min(len(b.got[key]), len(b.sent[key])):] {
			b.checker.report("every event is published", b.names[entry], "%s of %s was not", entry, key)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(b.put)) {
		if !b.taken[place] {
			b.checker.report("every message is taken", b.put[place].name, "%s was not", place)
		}
	}
	if !b.acked() {
		b.checker.report("nothing is left", "", "entries are pending")
	}
	if len(s.injected) == 0 && b.twice > 0 {
		b.checker.report("without faults, nothing is published twice", "", "%d messages were", b.twice)
	}
}
