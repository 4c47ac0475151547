package delivery

import (
	"context"
	"slices"
	"sync"

	"flunq.io/flunq/engine/store"
)

// omittedMessages are those that a consumer was given and that are still to be read, since
// they are large.
type omittedMessages struct {
	mu   sync.Mutex
	msgs []store.Message
}

// put takes out those of what was read that are late.
func (l *omittedMessages) put(msgs []store.Message) []store.Message {
	omitted := func(m store.Message) bool { return m.Omitted() }
	if !slices.ContainsFunc(msgs, omitted) {
		return msgs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range msgs {
		if msgs[i].Omitted() {
			l.msgs = append(l.msgs, msgs[i])
		}
	}
	return slices.DeleteFunc(msgs, omitted)
}

// take takes those out of the first tenant of which there is not enough.
func (l *omittedMessages) take(enough []string) (msgs []store.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.msgs, func(m store.Message) bool { return !slices.Contains(enough, m.Tenant) })
	if at < 0 {
		return nil
	}
	of := func(m store.Message) bool { return m.Tenant == l.msgs[at].Tenant }
	for _, m := range l.msgs {
		if of(m) {
			msgs = append(msgs, m)
		}
	}
	tenant := msgs[0].Tenant
	l.msgs = slices.DeleteFunc(l.msgs, func(m store.Message) bool { return m.Tenant == tenant })
	return msgs
}

func (l *omittedMessages) buffered() []store.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.msgs)
}

// load reads the next of the late messages, and reports whether there are any of tenants
// that have not enough.
func (d *Consumer) load(ctx context.Context, r store.Reader, enough []string) (f Fetched, ok bool, err error) {
	omitted := d.omitted.take(enough)
	if len(omitted) == 0 {
		return f, false, nil
	}
	msgs, left, handled, now, err := d.Store.Load(ctx, r, omitted)
	d.omitted.put(left)
	d.handled.add(handled)
	return Fetched{Messages: msgs, Events: len(msgs), Now: now, Wake: now, Tenants: 1}, true, err
}
