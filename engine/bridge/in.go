package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// In appends messages from topics to the streams of tenants, each exactly once: in one script,
// it compares the message's offset with the last one of its partition, appends the message and
// advances the position. It does not matter how many times a message is read, or by which process.
type In struct {
	*Bridge

	positions map[string]map[string]stream.Position // of the tenants of the last step, by partition
	topics    map[string]string                     // the tenants of topics
	names     []string                              // of topics
	held      []cloudevents.Message                 // read but not taken
	broken    map[string]bool                       // tenants that could not take messages and are left out of the next fetch
}

func newIn(b *Bridge) *In { return &In{Bridge: b, positions: map[string]map[string]stream.Position{}} }

// Step takes the next messages.
func (in *In) Step(ctx context.Context) (wake time.Time, err error) {
	var failed error
	if len(in.held) == 0 {
		failed = in.adopt(ctx)
		if store.Down(in.store, failed) {
			return wake, failed
		}
		if len(in.names) == 0 {
			in.lag(nil)
			in.wait(ctx)
			return wake, failed
		}
		in.held, err = in.opts.Source.Fetch(ctx, in.names, in.after)
		in.lag(in.opts.Source.Lags())
		if err != nil {
			what := Unread
			if errors.Is(err, cloudevents.ErrLost) {
				what = Lost
			}
			in.opts.observe(Activity{What: what, Count: 1, Err: err})
			return wake, errors.Join(failed, err)
		}
	}
	if len(in.held) == 0 {
		return wake, failed
	}
	now, err := in.store.Now(ctx)
	if err != nil {
		return now, errors.Join(failed, err)
	}
	return now, errors.Join(failed, in.take(ctx, now))
}

func (in *In) lag(lags map[string]int64) {
	if in.opts.Lag != nil {
		in.opts.Lag(lags)
	}
}

// adopt sets the topics to those of the tenants that this process bridges, and reads the positions of
// new tenants. It leaves out tenants whose positions cannot be read.
func (in *In) adopt(ctx context.Context) error {
	tenants := in.tenants()
	before := in.positions
	in.positions, in.topics, in.names = map[string]map[string]stream.Position{}, map[string]string{}, nil
	var errs []error
	for _, tenant := range tenants {
		if in.broken[tenant] {
			continue
		}
		known, ok := before[tenant]
		if !ok {
			var err error
			if known, err = in.streams.Positions(ctx, tenant); store.Down(in.store, err) {
				in.positions = before
				return err
			} else if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		in.positions[tenant] = known
		for _, topic := range in.opts.listen(tenant) {
			in.topics[topic] = tenant
			in.names = append(in.names, topic)
		}
	}
	in.broken = map[string]bool{}
	return errors.Join(errs...)
}

// after returns the position of a partition.
func (in *In) after(partition string) (cloudevents.Position, bool) {
	topic := partition[:strings.LastIndexByte(partition, '/')]
	p, ok := in.positions[in.topics[topic]][partition]
	return cloudevents.Position(p), ok
}

// take takes the held messages. Those that it cannot take now stay held.
func (in *In) take(ctx context.Context, now time.Time) error {
	var order []string
	byTenant := map[string][]cloudevents.Message{}
	for i := range in.held {
		m := &in.held[i]
		tenant, known := in.topics[m.Topic]
		if !known {
			continue // another process bridges the tenant now, and reads on from the position
		}
		if byTenant[tenant] == nil {
			order = append(order, tenant)
		}
		byTenant[tenant] = append(byTenant[tenant], *m)
	}
	in.held = nil
	var errs []error
	for _, tenant := range order {
		n, err := in.takeOf(ctx, tenant, byTenant[tenant], now)
		in.opts.Source.Commit(ctx, byTenant[tenant][:n])
		if err == nil || store.Down(in.store, err) {
			in.held = append(in.held, byTenant[tenant][n:]...)
		} else { // read them again from the position, after those of other tenants
			in.broken[tenant] = true
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("take messages for %s: %w", tenant, err))
		}
	}
	return errors.Join(errs...)
}

// takeOf takes messages of one tenant and returns their number.
func (in *In) takeOf(ctx context.Context, tenant string, messages []cloudevents.Message, now time.Time) (int, error) {
	records := make([]stream.Taken, 0, len(messages))
	reasons := make([]error, len(messages))
	var failed error
	for i := range messages {
		var r stream.Taken
		if r, reasons[i], failed = in.record(ctx, tenant, &messages[i], now); failed != nil {
			break
		}
		records = append(records, r)
	}
	first, err := in.streams.Take(ctx, tenant, records)
	count := map[Activity]int{}
	for i, once := range first {
		m := &messages[i]
		a := Activity{What: Received, Tenant: tenant, Topic: m.Topic}
		switch {
		case !once:
			a.What = Repeated
			count[a]++
		case reasons[i] != nil:
			a.What, a.Count, a.Err = Rejected, 1, fmt.Errorf("%s: %w", m.Place(), reasons[i])
			in.opts.observe(a)
		default:
			count[a]++
		}
		if known := in.positions[tenant]; known != nil {
			known[m.PartitionName()] = stream.Position{Log: m.Log, Offset: m.Offset}
		}
	}
	for a, n := range count {
		a.Count = n
		in.opts.observe(a)
	}
	return len(first), errors.Join(err, failed)
}

// record converts a message to an entry of the stream or, if there is a reason, to a dead letter.
func (in *In) record(ctx context.Context, tenant string, m *cloudevents.Message, now time.Time) (r stream.Taken, reason, err error) {
	r = stream.Taken{Partition: m.PartitionName(), Log: m.Log, Offset: m.Offset}
	e, reason := cloudevents.Decode(m, in.opts.Plain)
	if reason != nil {
		return in.dead(r, m, cloudevents.Unreadable(m, now), reason, now), reason, nil
	}
	e.Tenant = tenant
	if e.Time.IsZero() || strings.HasPrefix(string(e.Type), event.Prefix) {
		e.Time = now // the clocks of external programs must not affect timers
	}
	if strings.HasPrefix(string(e.Type), event.Prefix) && !in.trusts(m.Topic, tenant) {
		reason = fmt.Errorf("events of type %s are accepted only from trusted topics (KAFKA_TRUSTED, NATS_TRUSTED), since their sender decides the results of tasks", e.Type)
	} else {
		reason, err = in.start(ctx, &e, m)
	}
	if err != nil {
		return r, nil, err
	}
	fields := in.store.Fields(e)
	if reason != nil {
		return in.dead(r, m, fields, reason, now), reason, nil
	}
	r.Fields = fields
	return r, nil, nil
}

// dead turns a record into a dead letter.
func (in *In) dead(r stream.Taken, m *cloudevents.Message, fields []string, reason error, now time.Time) stream.Taken {
	at := now.UTC().Format(time.RFC3339Nano)
	r.Dead = true
	r.Fields = append(fields,
		"reason", m.Place()+": "+reason.Error(), "attempts", "1", "service", in.opts.Group, "source_stream", m.PartitionName(),
		"source_id", strconv.FormatInt(m.Offset, 10), "first_failure", at, "last_failure", at)
	return r
}

func (in *In) trusts(topic, tenant string) bool {
	return slices.ContainsFunc(in.opts.Trusted, func(pattern string) bool { return topicOf(pattern, tenant) == topic })
}

// start starts the workflow for an event's type, if any. The id of the execution is derived from
// the event's id and source, so an event that is sent twice starts one execution.
func (in *In) start(ctx context.Context, e *event.Event, m *cloudevents.Message) (reason, err error) {
	workflow := in.opts.Workflows[e.Type]
	if workflow == "" {
		return nil, nil
	}
	if p, known := in.positions[e.Tenant][m.PartitionName()]; known && p.Log == m.Log && m.Offset <= p.Offset {
		return nil, nil // already taken
	}
	sum := sha256.Sum256([]byte(e.Source + "\x00" + e.ID))
	input := []byte(e.Data)
	if len(input) == 0 {
		input = []byte("{}")
	}
	err = in.opts.Start(ctx, Start{Tenant: e.Tenant, Workflow: workflow, ID: "event-" + hex.EncodeToString(sum[:16]), Input: input})
	if errors.Is(err, cloudevents.ErrRefused) {
		return fmt.Errorf("start workflow %s: %w", workflow, err), nil
	}
	return nil, err
}
