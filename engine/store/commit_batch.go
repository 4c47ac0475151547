package store

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
)

// Keys and arguments of a batch before those of its transitions.
const (
	tenantKeys     = 6
	batchArguments = 7

	transitionArguments = 28 // as a rule, besides its events
)

// commitBatch is the keys and arguments of a commitScript.
type commitBatch struct {
	store           *Store
	tenant          string
	where           *keysOfTenant
	group, consumer string   // whose messages are answered; empty: there are none
	names           []string // of the executions, for errors
	refused         []error  // why one is not given to the script; nil if it is
	keys            []string // of the executions
	args            []any    // of the transitions
	first, last     string   // of the entries that are answered
	deadLetter      []any    // of the message that the only transition answers; none if it is not given up
}

func (s *Store) newCommitBatch(commits []Commit) *commitBatch {
	b := &commitBatch{store: s, tenant: commits[0].Tenant, where: s.keysFor(commits[0].Tenant)}
	size := 0
	for i := range commits {
		size += transitionArguments + eventArguments*(len(commits[i].History)+len(commits[i].Publish))
	}
	b.args = make([]any, 0, min(size, mostArguments))
	for i := range commits {
		if m := commits[i].Message; m != nil {
			b.group, b.consumer = m.Group, m.Consumer
			break
		}
	}
	return b
}

// indexKey is the number of the key of the index that executions of a status end in.
func indexKey(status string) int {
	switch indexOf(status) {
	case faultedIndex:
		return 4
	case completedIndex:
		return 5
	case cancelledIndex:
		return 6
	default:
		return 3
	}
}

// fits reports whether a batch has space for another transition.
func (b *commitBatch) fits(c *Commit) bool {
	n := len(c.History) + len(c.Publish)
	return len(b.names) == 0 || len(b.names) < mostTransitions && len(b.args)+eventArguments*n < mostArguments
}

// answers widens the range of the entries that the batch answers.
func (b *commitBatch) answers(entry string) {
	if b.first == "" || compareIDs(entry, b.first) < 0 {
		b.first = entry
	}
	if b.last == "" || compareIDs(entry, b.last) > 0 {
		b.last = entry
	}
}

// errLost is why a transition is not tried.
var errLost = errors.New("an earlier one failed")

// add adds a transition, unless it cannot be written or one that it builds upon is lost, and
// reports whether it did.
func (b *commitBatch) add(c *Commit, lost bool) bool {
	err := c.check(b)
	if err == nil && lost {
		err = errLost
	}
	b.names, b.refused = append(b.names, c.Execution), append(b.refused, err)
	if err != nil {
		return false
	}
	join, leave := b.addKeys(c)
	entry, index := any(""), 0
	if c.Message != nil {
		entry = &c.Message.ID
		b.answers(c.Message.ID)
	}
	if c.Ended {
		index = indexKey(c.Status)
	}
	head := len(b.args)
	b.args = append(b.args, nil, entry, c.Ack && c.Message != nil, &c.Execution, c.started().UnixMilli(), c.Version, &c.Status, index,
		c.Damaged, c.evenIfFull(), join, leave, nil, len(c.History), len(c.Publish), len(c.Cancel))
	fields := len(b.args)
	b.addFields(c)
	b.args[fields-4] = len(b.args) - fields
	for i := range c.History {
		b.args = b.store.appendEvent(b.args, &c.History[i], c.Tenant, true)
	}
	b.publish(c)
	for _, t := range c.Cancel {
		b.args = append(b.args, member(t), tombstone(t))
	}
	b.args[head] = len(b.args) - head
	return true
}

// addKeys adds the keys of a transition, and returns how many sets it joins and leaves.
func (b *commitBatch) addKeys(c *Commit) (join, leave int) {
	execution, history := b.where.execution(c.Execution)
	b.keys = append(b.keys, execution, history)
	listeners := func(types []string, counted bool) (n int) {
		for _, typ := range types {
			b.keys = append(b.keys, b.store.keys.Listeners(c.Tenant, typ))
		}
		if counted {
			b.keys = append(b.keys, b.store.keys.descendants(c.Tenant, c.Root))
			return len(types) + 1
		}
		return len(types)
	}
	joins, leaves := c.counts()
	return listeners(c.Listen, joins), listeners(c.Unlisten, leaves)
}

// addFields adds the fields of the execution that a commit sets besides its version and status.
func (b *commitBatch) addFields(c *Commit) {
	add := func(name, value string) {
		if value != "" {
			b.args = append(b.args, name, value)
		}
	}
	if c.Version == 0 {
		add("workflow", c.Workflow)
		add("definition", c.Definition)
		add("parent", c.Parent)
		add("parent_task", c.ParentTask)
		add("created", c.started().UTC().Format(time.RFC3339Nano))
	}
	add("definition", c.Migrated)
	add("output", string(b.store.sealer.Seal(c.Output)))
	add("error", string(b.store.sealer.Seal(c.Error)))
	if c.Ended {
		add("ended", c.Now.UTC().Format(time.RFC3339Nano))
	} else if c.Snapshot != nil {
		add("snapshot", string(b.store.sealer.Seal(c.Snapshot)))
		add("snapshot_version", strconv.FormatInt(c.Version+int64(len(c.History)), 10))
	}
}

// publish adds the events to publish. Most of them are entries of the history as well, in its
// order: the number of the entry says it all, but for further attributes.
func (b *commitBatch) publish(c *Commit) {
	from := 0 // in the history
	for i := range c.Publish {
		e := &c.Publish[i]
		n := c.written(e, from)
		if n < 0 {
			b.args = b.store.appendEvent(b.args, e, c.Tenant, false)
			continue
		}
		from = n + 1
		b.args = append(b.args, "history", from, 2*len(e.Ext)) //nolint:mnd // name and value
		for _, name := range slices.Sorted(maps.Keys(e.Ext)) {
			b.args = append(b.args, name, b.store.sealer.text(e.Ext[name]))
		}
	}
}

// written is the place from which on an event stands in the history; -1 if it does not.
func (c *Commit) written(e *event.Event, from int) int {
	for i := from; i < len(c.History); i++ {
		h := &c.History[i]
		if h.ID == e.ID && h.Type == e.Type && h.Source == e.Source && h.Task == e.Task && h.Time.Equal(e.Time) && h.Tenant == e.Tenant &&
			h.Workflow == e.Workflow && h.Execution == e.Execution && bytes.Equal(h.Data, e.Data) &&
			usual(h, c.Tenant) && (e.Task != "" || len(e.Ext) == 0) {
			return i
		}
	}
	return -1
}

// list is all keys and arguments, behind space for what stands before them.
func (b *commitBatch) list() []any {
	h := b.where
	all := append(make([]any, 0, beforeKeys+tenantKeys+len(b.keys)+batchArguments+len(b.deadLetter)+len(b.args)),
		nil, nil, nil, &h.stream, &h.timers, &h.open, &h.faulted, &h.completed, &h.cancelled)
	for i := range b.keys {
		all = append(all, &b.keys[i])
	}
	all = append(all, &b.group, &b.consumer, &b.tenant, &b.first, &b.last, lookedAt(len(b.names)), len(b.deadLetter))
	return append(append(all, b.deadLetter...), b.args...)
}

// run has the script make the transitions, and adds what became of them.
func (b *commitBatch) run(ctx context.Context, out []Committing) (all []Committing, err error) {
	var done []any
	if len(b.args) > 0 {
		if done, err = b.store.call(ctx, commitScript, tenantKeys+len(b.keys), b.list()).Slice(); err != nil {
			return nil, failed("commit", err)
		}
	}
	for i, name := range b.names {
		switch {
		case errors.Is(b.refused[i], errLost):
			out = append(out, Committing{Outcome: Conflict})
			continue
		case b.refused[i] != nil:
			out = append(out, Committing{Fenced, b.refused[i]})
			continue
		}
		if len(done) == 0 {
			return nil, failed("commit", errReply)
		}
		switch result := done[0].(type) {
		case int64:
			out = append(out, Committing{Outcome: Outcome(result)})
		case string:
			out = append(out, Committing{Fenced, failed("commit "+name, errors.New(result))})
		default:
			return nil, failed("commit "+name, errReply)
		}
		done = done[1:]
	}
	return out, nil
}
