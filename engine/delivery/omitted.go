package delivery

import (
	"context"
	"slices"
	"sync"

	"flunq.io/flunq/engine/queue"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// omittedMessages are large messages that were delivered without their content, which is loaded
// one message at a time.
type omittedMessages struct {
	mu    sync.Mutex
	queue queue.Fair[store.Message]
}

// put removes omitted messages from what was read and keeps them.
func (m *omittedMessages) put(msgs []store.Message) []store.Message {
	omitted := func(msg store.Message) bool { return msg.Omitted }
	if !slices.ContainsFunc(msgs, omitted) {
		return msgs
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range msgs {
		if msgs[i].Omitted {
			m.queue.PushBack(msgs[i].Tenant, msgs[i])
		}
	}
	return slices.DeleteFunc(msgs, omitted)
}

// take removes and returns the messages of the first tenant that is not in skip.
func (m *omittedMessages) take(skip []string) []store.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.Take(func(tenant string) bool { return !slices.Contains(skip, tenant) })
}

// tenants returns the tenants with omitted messages.
func (m *omittedMessages) tenants() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.queue.Tenants())
}

func (m *omittedMessages) buffered() []store.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.All()
}

// load loads the next omitted messages of a tenant that is not in skip, and reports whether there
// were any.
func (c *Consumer) load(ctx context.Context, r stream.Reader, skip []string) (f Fetched, ok bool, err error) {
	omitted := c.omitted.take(skip)
	if len(omitted) == 0 {
		return f, false, nil
	}
	msgs, left, handled, now, err := c.streams.Load(ctx, r, omitted)
	c.omitted.put(left)
	c.handled.add(handled)
	return Fetched{Messages: msgs, Events: len(msgs), Now: now, Wake: now, Tenants: 1}, true, err
}
