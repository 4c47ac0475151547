package worker

import (
	"slices"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// queues holds waiting messages, in order within each tenant. Tenants take turns, so that
// a long queue does not delay the others.
type queues struct {
	size  int
	turns []string // tenants with messages, in order of their turns
	of    map[string][]store.Message
	large map[string]int // bytes of large messages by tenant
}

// mostLarge is how many bytes of a tenant's large messages may wait before reading pauses
// for it.
const mostLarge = 32 << 20

// countLarge counts the large messages that are added for a tenant.
func (q *queues) countLarge(tenant string, msgs []store.Message) {
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

// tooLarge reports whether a tenant has reached mostLarge.
func (q *queues) tooLarge(tenant string) bool { return q.large[tenant] > mostLarge }

// tenants returns how many tenants have messages.
func (q *queues) tenants() int { return len(q.turns) }

// atLeast returns the tenants with n or more messages, or with enough large ones.
func (q *queues) atLeast(n int) (tenants []string) {
	for _, tenant := range q.turns {
		if len(q.of[tenant]) >= n || q.tooLarge(tenant) {
			tenants = append(tenants, tenant)
		}
	}
	return tenants
}

// put appends messages to their tenants' queues and takes ownership of the slice.
func (q *queues) put(msgs []store.Message) {
	for len(msgs) > 0 {
		tenant, n := msgs[0].Tenant, 1
		for n < len(msgs) && msgs[n].Tenant == tenant {
			n++
		}
		q.add(tenant, n)
		q.countLarge(tenant, msgs[:n])
		if waiting := q.of[tenant]; len(waiting) > 0 {
			q.of[tenant] = append(waiting, msgs[:n]...)
		} else {
			q.of[tenant] = slices.Clip(msgs[:n])
		}
		if slices.ContainsFunc(msgs[:n], command) {
			q.of[tenant] = commandsFirst(q.of[tenant])
		}
		msgs = msgs[n:]
	}
}

// command reports whether an operator wants an execution to end or to pause.
func command(m store.Message) bool {
	switch m.Event.Type {
	case event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed:
		return true
	default:
		return false
	}
}

// commandsFirst returns messages with the commands before all others, so that they need not
// wait for what other executions compute. A command stays behind the start or the retry
// of its execution.
func commandsFirst(msgs []store.Message) []store.Message {
	started := map[string]bool{}
	var first, rest []store.Message
	for _, m := range msgs {
		if command(m) && !started[m.Event.Execution] {
			first = append(first, m)
			continue
		}
		if t := m.Event.Type; t == event.ExecutionStarted || t == event.ExecutionRetried {
			started[m.Event.Execution] = true
		}
		rest = append(rest, m)
	}
	return append(first, rest...)
}

// putFront puts messages of one tenant in front of its queue and makes it that tenant's turn.
func (q *queues) putFront(msgs []store.Message) {
	if len(msgs) == 0 {
		return
	}
	tenant := msgs[0].Tenant
	q.add(tenant, len(msgs))
	q.countLarge(tenant, msgs)
	q.of[tenant] = append(slices.Clone(msgs), q.of[tenant]...)
	if slices.ContainsFunc(q.of[tenant], command) {
		q.of[tenant] = commandsFirst(q.of[tenant])
	}
	q.turns = append([]string{tenant}, slices.DeleteFunc(q.turns, func(t string) bool { return t == tenant })...)
}

// yield moves the first tenant behind all others.
func (q *queues) yield() { q.turns = append(q.turns[1:], q.turns[0]) }

// add registers n more messages of a tenant.
func (q *queues) add(tenant string, n int) {
	if q.of == nil {
		q.of = map[string][]store.Message{}
	}
	if len(q.of[tenant]) == 0 {
		q.turns = append(q.turns, tenant)
	}
	q.size += n
}

// next removes and returns all messages of the tenant whose turn it is.
func (q *queues) next() []store.Message {
	tenant := q.turns[0]
	q.turns = q.turns[1:]
	msgs := q.of[tenant]
	delete(q.of, tenant)
	delete(q.large, tenant)
	q.size -= len(msgs)
	return msgs
}

// requeue puts back messages that next returned. The tenant's turn comes after all others.
func (q *queues) requeue(msgs []store.Message) {
	if len(msgs) == 0 {
		return
	}
	q.add(msgs[0].Tenant, len(msgs))
	q.countLarge(msgs[0].Tenant, msgs)
	q.of[msgs[0].Tenant] = msgs
}

// has reports whether a message is queued.
func (q *queues) has(m store.Message) bool { return slices.ContainsFunc(q.of[m.Tenant], m.Same) }

// all returns the messages of all tenants.
func (q *queues) all() (out []store.Message) {
	for _, tenant := range q.turns {
		out = append(out, q.of[tenant]...)
	}
	return out
}
