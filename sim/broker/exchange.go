package broker

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"

	"flunq.io/flunq/engine/cloudevents"
)

// Exchange is an in-memory broker for bridges. Its clients are as deterministic as their callers.
type Exchange struct {
	Largest int // bytes of a value; 0: any

	mu     sync.Mutex
	topics map[string][][]cloudevents.Message // by topic and partition
}

// NewExchange returns an Exchange with these topics; each has the given number of partitions.
func NewExchange(partitions int, topics ...string) *Exchange {
	b := &Exchange{topics: map[string][][]cloudevents.Message{}}
	for _, name := range topics {
		b.topics[name] = make([][]cloudevents.Message, partitions)
	}
	return b
}

// Put appends a message, as another program would.
func (b *Exchange) Put(m cloudevents.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	topic := b.topics[m.Topic]
	if topic == nil {
		return fmt.Errorf("topic %s does not exist", m.Topic)
	}
	if b.Largest > 0 && len(m.Value) > b.Largest {
		return fmt.Errorf("%w: %d bytes are too large", cloudevents.ErrRefused, len(m.Value))
	}
	h := fnv.New32a()
	_, _ = h.Write(m.Key)
	n := int(h.Sum32() % uint32(len(topic)))
	m.Partition, m.Offset, m.Log = int32(n), int64(len(topic[n])), "log-of-"+m.Topic
	topic[n] = append(topic[n], m)
	return nil
}

// Records returns all messages of a topic, partition by partition.
func (b *Exchange) Records(topic string) []cloudevents.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Concat(b.topics[topic]...)
}

// Client is a process's connection to an Exchange. It implements bridge.Sink and bridge.Source.
type Client struct {
	broker *Exchange
	next   map[string]int // offset to read next, by partition
	topics map[string]bool
}

// Client returns a new connection.
func (b *Exchange) Client() *Client {
	return &Client{broker: b, next: map[string]int{}, topics: map[string]bool{}}
}

// Copy returns a connection at the same offsets.
func (c *Client) Copy() *Client {
	return &Client{broker: c.broker, next: maps.Clone(c.next), topics: maps.Clone(c.topics)}
}

// Publish implements bridge.Sink.
func (c *Client) Publish(ctx context.Context, messages []cloudevents.Message) []error {
	errs := make([]error, len(messages))
	for i, m := range messages {
		if errs[i] = ctx.Err(); errs[i] == nil {
			errs[i] = c.broker.Put(m)
		}
	}
	return errs
}

// Fetch implements bridge.Source.
func (c *Client) Fetch(_ context.Context, topics []string, after func(string) (cloudevents.Position, bool)) (out []cloudevents.Message, err error) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	known := c.topics
	c.topics = map[string]bool{}
	for _, topic := range topics {
		c.topics[topic] = true
		for n, messages := range c.broker.topics[topic] {
			name := cloudevents.PartitionName(topic, int32(n))
			if !known[topic] {
				c.next[name] = 0
				if p, ok := after(name); ok {
					c.next[name] = int(p.Offset) + 1
				}
			}
			const limit = 10
			end := min(len(messages), c.next[name]+limit)
			out = append(out, messages[c.next[name]:end]...)
			c.next[name] = end
		}
	}
	return out, nil
}

// Commit implements bridge.Source.
func (c *Client) Commit(context.Context, []cloudevents.Message) {}

// Lags implements bridge.Source.
func (c *Client) Lags() map[string]int64 { return nil }
