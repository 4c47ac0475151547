package delivery

import (
	"context"
	"slices"
	"sync"

	"flunq.io/flunq/engine/store"
)

// lateMessages are those that a consumer was given and that are still to be read, since
// they are large.
type lateMessages struct {
	mu   sync.Mutex
	msgs []store.Message
}

// put takes out those of what was read that are late.
func (l *lateMessages) put(msgs []store.Message) []store.Message {
	late := func(m store.Message) bool { return m.Late() }
	if !slices.ContainsFunc(msgs, late) {
		return msgs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range msgs {
		if msgs[i].Late() {
			l.msgs = append(l.msgs, msgs[i])
		}
	}
	return slices.DeleteFunc(msgs, late)
}

// take takes those out of the first tenant of which there is not enough.
func (l *lateMessages) take(enough []string) (msgs []store.Message) {
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

func (l *lateMessages) held() []store.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.msgs)
}

// load reads the next of the late messages, and reports whether there are any of tenants
// that have not enough.
func (d *Desk) load(ctx context.Context, r store.Reader, enough []string) (f Fetched, ok bool, err error) {
	late := d.late.take(enough)
	if len(late) == 0 {
		return f, false, nil
	}
	msgs, left, spent, now, err := d.Store.Load(ctx, r, late)
	d.late.put(left)
	d.spent.add(spent)
	return Fetched{Messages: msgs, Events: len(msgs), Now: now, Wake: now, Tenants: 1}, true, err
}
