package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
	"flunq.io/flunq/engine/store/wire"
)

// Sink publishes events.
type Sink interface {
	// Publish publishes events and returns one error for each, nil if the sink has certainly accepted
	// it. The errors wrap those of package schedule; see schedule.Retry.Settle.
	Publish(ctx context.Context, events []schedule.Event) []error
}

// TopicSink publishes each event as the prefix of its topic says: event:TYPE publishes a CloudEvent in
// the stream of a tenant, with the event's id; an execution receives each id once. workflow:NAME starts
// an execution with the event's id, so it starts once. Events without a prefix go to Plain.
type TopicSink struct {
	Store *store.Store
	Plain Sink
}

// Publish implements Sink. An event of a tenant takes up to five round trips, so several are published
// concurrently: a batch must finish before its lease expires.
func (t TopicSink) Publish(ctx context.Context, events []schedule.Event) []error {
	errs := make([]error, len(events))
	var plain []schedule.Event
	var at []int
	var wg sync.WaitGroup
	limit := make(chan struct{}, 16)
	for i := range events {
		e := &events[i]
		if !strings.HasPrefix(e.Topic, schedule.EventTopic) && !strings.HasPrefix(e.Topic, schedule.WorkflowTopic) {
			plain, at = append(plain, *e), append(at, i)
			continue
		}
		limit <- struct{}{}
		wg.Go(func() {
			errs[i] = classified(t.publish(ctx, e))
			<-limit
		})
	}
	if len(plain) > 0 {
		for i, err := range t.Plain.Publish(ctx, plain) {
			errs[at[i]] = err
		}
	}
	wg.Wait()
	return errs
}

func (t TopicSink) publish(ctx context.Context, e *schedule.Event) error {
	if name, ok := strings.CutPrefix(e.Topic, schedule.WorkflowTopic); ok {
		return t.start(ctx, e, name)
	}
	return t.Store.Publish(ctx, event.Event{
		ID: e.ID, Source: schedule.Source, Type: event.Type(strings.TrimPrefix(e.Topic, schedule.EventTopic)), Time: e.Due,
		Tenant: e.Tenant, Data: data(e.Payload), Ext: e.Headers,
	})
}

// data returns the payload if it is JSON, otherwise as a JSON string: of the text, or of other bytes
// in base64.
func data(payload []byte) json.RawMessage {
	switch {
	case !utf8.Valid(payload):
		return event.Encode(payload)
	case json.Valid(payload):
		return payload
	default:
		return event.Encode(string(payload))
	}
}

func (t TopicSink) start(ctx context.Context, e *schedule.Event, name string) error {
	name, version, _ := strings.Cut(name, ":")
	id, err := t.find(ctx, e.Tenant, name)
	if err == nil && version != "" {
		_, _, err = registry.New(t.Store).Definition(ctx, e.Tenant, id, version)
	}
	var now time.Time
	if err == nil {
		now, err = t.Store.NowOf(ctx, e.Tenant)
	}
	if store.Temporary(err) {
		return fmt.Errorf("%w: %w", schedule.ErrUnavailable, err) // even if the reply was lost: reads publish nothing
	}
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(id, ".")
	trace := map[string]string{}
	for _, name := range event.TraceAttributes() {
		if value := e.Headers[name]; value != "" {
			trace[name] = value
		}
	}
	err = engine.StartExecution(ctx, t.Store, engine.StartRequest{
		Tenant: e.Tenant, ID: e.ID, Namespace: namespace, Name: name, Version: version, Input: data(e.Payload), Trace: trace, Now: now,
	})
	if errors.Is(err, store.ErrExists) {
		return nil // started by an earlier publication whose outcome was unknown
	}
	return err
}

// find returns the id, "namespace.name", of a registered workflow from its id or, if unique, its
// name.
func (t TopicSink) find(ctx context.Context, tenant, name string) (string, error) {
	if known, err := registry.New(t.Store).Versions(ctx, tenant, name); err != nil || len(known) > 0 {
		return name, err
	}
	all, err := registry.New(t.Store).Workflows(ctx, tenant)
	if err != nil {
		return "", err
	}
	var found []string
	for _, w := range all {
		if _, short, _ := strings.Cut(w.ID, "."); short == name {
			found = append(found, w.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("workflow %s of tenant %s is not registered: %w", name, tenant, store.ErrNotFound)
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("workflow %s of tenant %s is ambiguous: %s: %w", name, tenant, strings.Join(found, ", "), store.ErrNotFound)
	}
}

// StreamSink appends each event to the Redis stream of its topic, see agenda.StreamKey.
// It does not trim the stream, which is up to its readers.
type StreamSink struct{ Redis *wire.Client }

// Publish implements Sink.
func (s StreamSink) Publish(ctx context.Context, events []schedule.Event) []error {
	pipe := s.Redis.Pipeline()
	cmds := make([]*redis.StringCmd, len(events))
	for i := range events {
		e := &events[i]
		values := make([]any, 0, 20+2*len(e.Headers))
		values = append(values, "id", e.ID, "source", schedule.Source, "specversion", schedule.SpecVersion, "type", schedule.FiredType,
			"time", e.Due.UTC().Format(time.RFC3339Nano), "key", e.RecordKey(), "attempt", strconv.Itoa(e.Attempts+1), "data", e.Payload)
		for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
			values = append(values, "header:"+name, e.Headers[name])
		}
		cmds[i] = pipe.XAdd(ctx, &redis.XAddArgs{Stream: agenda.StreamKey(s.Redis, e.Topic), Values: values})
	}
	out := make([]error, len(events))
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, cmd := range cmds {
		out[i] = classified(store.Failed("publish", cmd.Err()))
	}
	return out
}

// classified wraps an error of Redis with what it says about the publication.
func classified(err error) error {
	var dial *net.OpError
	_, replied := errors.AsType[redis.Error](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrName):
		return fmt.Errorf("%w: %w", schedule.ErrRefused, err)
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: %w", schedule.ErrNotPublished, err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", schedule.ErrUnreachable, err)
	case !replied:
		return err // the reply may have been lost
	case store.Temporary(err): // out of memory, loading, a replica
		return fmt.Errorf("%w: %w", schedule.ErrUnreachable, err)
	default:
		return fmt.Errorf("%w: %w", schedule.ErrRefused, err)
	}
}
