package worker

import (
	"slices"

	"flunq.io/flunq/engine/store"
)

// queues are messages that wait, those of each tenant in their order. Tenants take
// turns, so that one with many messages does not keep the others waiting.
type queues struct {
	size  int
	turns []string // tenants that have some
	of    map[string][]store.Message
	large map[string]int // bytes of large messages, of those tenants that have some
}

// mostLarge is how many bytes of large messages of a tenant wait at most before no more
// are read.
const mostLarge = 32 << 20

// weigh counts the large ones of messages that are added for a tenant.
func (q *queues) weigh(tenant string, msgs []store.Message) {
	const large = 64 << 10
	for i := range msgs {
		if n := len(msgs[i].Event.Data); n > large {
			if q.large == nil {
				q.large = map[string]int{}
			}
			q.large[tenant] += n
		}
	}
}

// heavy reports whether enough of a tenant's messages are large.
func (q *queues) heavy(tenant string) bool { return q.large[tenant] > mostLarge }

// tenants is how many have messages.
func (q *queues) tenants() int { return len(q.turns) }

// with are the tenants that have at least so many, or enough large ones.
func (q *queues) with(n int) (tenants []string) {
	for _, tenant := range q.turns {
		if len(q.of[tenant]) >= n || q.heavy(tenant) {
			tenants = append(tenants, tenant)
		}
	}
	return tenants
}

// put adds messages behind those of their tenants. They are the queues' from then on.
func (q *queues) put(msgs []store.Message) {
	for len(msgs) > 0 {
		tenant, n := msgs[0].Tenant, 1
		for n < len(msgs) && msgs[n].Tenant == tenant {
			n++
		}
		q.add(tenant, n)
		q.weigh(tenant, msgs[:n])
		if waiting := q.of[tenant]; len(waiting) > 0 {
			q.of[tenant] = append(waiting, msgs[:n]...)
		} else {
			q.of[tenant] = slices.Clip(msgs[:n])
		}
		msgs = msgs[n:]
	}
}

// back puts messages of one tenant before all others of it; it is its turn.
func (q *queues) back(msgs []store.Message) {
	if len(msgs) == 0 {
		return
	}
	tenant := msgs[0].Tenant
	q.add(tenant, len(msgs))
	q.weigh(tenant, msgs)
	q.of[tenant] = append(slices.Clone(msgs), q.of[tenant]...)
	q.turns = append([]string{tenant}, slices.DeleteFunc(q.turns, func(t string) bool { return t == tenant })...)
}

// yield makes it the turn of all others first.
func (q *queues) yield() { q.turns = append(q.turns[1:], q.turns[0]) }

// add says that there are more of a tenant.
func (q *queues) add(tenant string, n int) {
	if q.of == nil {
		q.of = map[string][]store.Message{}
	}
	if len(q.of[tenant]) == 0 {
		q.turns = append(q.turns, tenant)
	}
	q.size += n
}

// next takes out all messages of the tenant whose turn it is.
func (q *queues) next() []store.Message {
	tenant := q.turns[0]
	q.turns = q.turns[1:]
	msgs := q.of[tenant]
	delete(q.of, tenant)
	delete(q.large, tenant)
	q.size -= len(msgs)
	return msgs
}

// leave gives back those of one tenant that next has taken and that wait on: it is
// the turn of all others first.
func (q *queues) leave(msgs []store.Message) {
	if len(msgs) == 0 {
		return
	}
	q.add(msgs[0].Tenant, len(msgs))
	q.weigh(msgs[0].Tenant, msgs)
	q.of[msgs[0].Tenant] = msgs
}

// has reports whether a message is among them.
func (q *queues) has(m store.Message) bool { return slices.ContainsFunc(q.of[m.Tenant], m.Same) }

// all are the messages of all tenants.
func (q *queues) all() (out []store.Message) {
	for _, tenant := range q.turns {
		out = append(out, q.of[tenant]...)
	}
	return out
}
