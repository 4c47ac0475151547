package worker

import (
	"slices"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/queue"
	"flunq.io/flunq/engine/store"
)

// queues holds the waiting messages of all tenants, with operators' commands first.
type queues struct{ queue.Fair[store.Message] }

// tooLarge reports whether the large messages of a tenant take so much memory that reading pauses for
// it.
func (q *queues) tooLarge(tenant string) bool {
	const large, limit = 64 << 10, 32 << 20
	bytes, msgs := 0, q.Of(tenant)
	for i := range msgs {
		if n := len(msgs[i].Event.Data); n > large {
			bytes += n
		}
	}
	return bytes > limit
}

// atLeast returns the tenants with n or more messages, or whose large messages take too
// much memory.
func (q *queues) atLeast(n int) (tenants []string) {
	for _, tenant := range q.Tenants() {
		if len(q.Of(tenant)) >= n || q.tooLarge(tenant) {
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
		added := slices.Clip(msgs[:n])
		q.PushBack(tenant, added...)
		if slices.ContainsFunc(added, command) {
			commandsFirst(q.Of(tenant))
		}
		msgs = msgs[n:]
	}
}

// putFront puts messages of one tenant in front of its queue and gives that tenant the turn.
func (q *queues) putFront(tenant string, msgs []store.Message) {
	q.PushFront(tenant, msgs...)
	commandsFirst(q.Of(tenant))
}

// command reports whether a message is an operator's command to cancel, suspend or resume
// an execution.
func command(m store.Message) bool {
	switch m.Event.Type {
	case event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed:
		return true
	default:
		return false
	}
}

// commandsFirst moves commands before all other messages so that they need not wait until other
// executions have computed. A command stays behind the start or the retry of its execution.
func commandsFirst(msgs []store.Message) {
	if !slices.ContainsFunc(msgs, command) {
		return
	}
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
	copy(msgs[copy(msgs, first):], rest)
}
