package kafka

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"flunq.io/flunq/engine/schedule"
)

// topics tracks which topics exist. Only their records reach the client's producer, which would
// otherwise ask for a missing topic until it is closed, and wait for it.
type topics struct {
	wait time.Duration // after which records of a topic that does not exist are rejected

	mu    sync.Mutex
	known map[string]topic
}

type topic struct {
	exists       bool
	since, asked time.Time // if it does not exist: since when, and when the broker last said so
}

func newTopics(wait time.Duration) *topics { return &topics{wait: wait, known: map[string]topic{}} }

// recheckInterval is how long to remember that a topic does not exist.
const recheckInterval = time.Second

// check sets the errors of records whose topics are not known to exist.
func (t *topics) check(ctx context.Context, s *session, records []*kgo.Record, errs []error) {
	found := map[string]error{}
	var ask []string
	t.mu.Lock()
	for _, r := range records {
		known := t.known[r.Topic]
		if _, done := found[r.Topic]; done || known.exists {
			continue
		}
		found[r.Topic] = t.missing(known)
		if time.Since(known.asked) >= recheckInterval {
			ask = append(ask, r.Topic)
		}
	}
	t.mu.Unlock()
	if len(ask) > 0 {
		t.ask(ctx, s, ask, found)
	}
	for i, r := range records {
		errs[i] = found[r.Topic]
	}
}

// retry lets the next check ask about a topic.
func (t *topics) retry(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, name)
}

// missing returns the error for a record whose topic does not exist.
func (t *topics) missing(known topic) error {
	if lasts := known.asked.Sub(known.since); lasts >= t.wait {
		return fmt.Errorf("%w: the topic does not exist, for %s now: %w", schedule.ErrRefused, lasts.Round(time.Second), kerr.UnknownTopicOrPartition)
	}
	return fmt.Errorf("%w: %w", schedule.ErrUnavailable, kerr.UnknownTopicOrPartition)
}

// ask asks a broker about topics.
func (t *topics) ask(ctx context.Context, s *session, names []string, found map[string]error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = new(name)
		req.Topics = append(req.Topics, one)
		found[name] = fmt.Errorf("%w: a broker did not report the topic", schedule.ErrUnavailable)
	}
	reply, err := req.RequestWith(ctx, s.client)
	if err != nil {
		for _, name := range names {
			found[name] = fmt.Errorf("%w: %w", schedule.ErrUnreachable, err)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range reply.Topics {
		if r.Topic == nil {
			continue
		}
		found[*r.Topic] = t.note(*r.Topic, kerr.TypedErrorForCode(r.ErrorCode))
	}
}

// note records a broker's reply about a topic and returns the error for its records.
func (t *topics) note(name string, reply *kerr.Error) error {
	switch {
	case reply == kerr.UnknownTopicOrPartition:
		const limit = 1000
		if len(t.known) > limit {
			t.shrink()
		}
		now, known := time.Now(), t.known[name]
		if known.exists || now.Sub(known.asked) > t.wait {
			known = topic{since: now}
		}
		known.asked = now
		t.known[name] = known
		return t.missing(known)
	case reply == nil, reply.Retriable: // the client waits for it
		t.known[name] = topic{exists: true}
		return nil
	default:
		return classifyReply(reply, reply)
	}
}

// shrink forgets topics that do not exist and were not used recently.
func (t *topics) shrink() {
	maps.DeleteFunc(t.known, func(_ string, known topic) bool { return !known.exists && time.Since(known.asked) > t.wait })
}

// forget forgets a topic that was deleted.
func (t *topics) forget(s *session, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[name].exists {
		delete(t.known, name)
		// In another goroutine: the client calls back while holding locks that this needs.
		go s.client.PurgeTopicsFromProducing(name)
	}
}
