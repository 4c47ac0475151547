package delivery

import (
	"context"
	"slices"
	"sync"

	"flunq.io/flunq/engine/queue"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// omittedMessages are large messages that were delivered without their content and are to
// be loaded one after another.
type omittedMessages struct {
	mu    sync.Mutex
	queue queue.Fair[store.Message]
}

// put removes omitted messages from what was read and keeps them.
func (l *omittedMessages) put(msgs []store.Message) []store.Message {
	omitted := func(m store.Message) bool { return m.Omitted }
	if !slices.ContainsFunc(msgs, omitted) {
		return msgs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range msgs {
		if msgs[i].Omitted {
			l.queue.PushBack(msgs[i].Tenant, msgs[i])
		}
	}
	return slices.DeleteFunc(msgs, omitted)
}

// take removes and returns the messages of the first tenant that is not in skip.
func (l *omittedMessages) take(skip []string) []store.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Take(func(tenant string) bool { return !slices.Contains(skip, tenant) })
}

// tenants returns whose messages are kept.
func (l *omittedMessages) tenants() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.queue.Tenants())
}

func (l *omittedMessages) buffered() []store.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.All()
}

// load loads the next omitted messages of a tenant that is not in skip, and reports
// whether there were any.
func (d *Consumer) load(ctx context.Context, r stream.Reader, skip []string) (f Fetched, ok bool, err error) {
	omitted := d.omitted.take(skip)
	if len(omitted) == 0 {
		return f, false, nil
	}
	msgs, left, handled, now, err := d.streams.Load(ctx, r, omitted)
	d.omitted.put(left)
	d.handled.add(handled)
	return Fetched{Messages: msgs, Events: len(msgs), Now: now, Wake: now, Tenants: 1}, true, err
}
