package store

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
)

// Arguments of a batch before its transitions, of a transition before its fields,
// and of an event, as a rule.
const (
	batchArguments = 6
	headArguments  = 6
	eventArguments = 7
)

// commitBatch is the keys and arguments of a commitScript.
type commitBatch struct {
	store   *Store
	tenant  string
	owner   Message
	names   []string // of the executions, for errors
	refused []error  // why one is not given to the script; nil if it is
	keys    []string
	args    []any

	first, last string // of the entries that are answered

	stamp   time.Time // of the last event
	stamped any       // … as text
}

// newCommitBatch begins one for transitions like these.
func (s *Store) newCommitBatch(commits []Commit) *commitBatch {
	b := &commitBatch{store: s, tenant: commits[0].Tenant}
	for _, c := range commits {
		if c.Message != nil {
			b.owner = *c.Message
			break
		}
	}
	k := s.keys
	b.keys = append(make([]string, 0, 6+2*min(len(commits), mostTransitions)),
		k.stream(b.tenant), k.timers(b.tenant), k.executions(b.tenant, openShelf),
		k.executions(b.tenant, faultedShelf), k.executions(b.tenant, completedShelf), k.executions(b.tenant, cancelledShelf))
	size := batchArguments
	for _, c := range commits[:min(len(commits), mostTransitions)] {
		size += headArguments + 20 + eventArguments*(len(c.History)+len(c.Publish)) + 2*len(c.Cancel)
	}
	b.args = append(make([]any, 0, min(size, mostArguments)), b.owner.Group, b.owner.Consumer, b.tenant, "", "", 0)
	return b
}

// shelfKey is the number of the key of the index that executions of a status end in.
func shelfKey(status string) int {
	switch shelfOf(status) {
	case faultedShelf:
		return 4
	case completedShelf:
		return 5
	case cancelledShelf:
		return 6
	default:
		return 3
	}
}

func (b *commitBatch) fits(c Commit) bool {
	n := eventArguments * (len(c.History) + len(c.Publish))
	return len(b.names) == 0 || len(b.names) < mostTransitions && len(b.args)+n < mostArguments
}

// answered widens the range of the entries that the batch answers.
func (b *commitBatch) answered(entry string) {
	if b.first == "" || compareIDs(entry, b.first) < 0 {
		b.first = entry
	}
	if b.last == "" || compareIDs(entry, b.last) > 0 {
		b.last = entry
	}
}

// counts are how many arguments a transition has of each kind, in as many bytes as
// the script reads.
type counts struct {
	length, key                           int // of its arguments, these included; the number of its first key
	history, publish, cancel, join, leave int
	fields, shelf                         int
	acknowledge                           bool
}

func (n counts) text() string {
	out := make([]byte, 0, 18)
	out = append(out, byte(n.length>>16), byte(n.length>>8), byte(n.length))
	for _, count := range []int{n.key, n.history, n.publish, n.cancel, n.join, n.leave} {
		out = append(out, byte(count>>8), byte(count))
	}
	acknowledge := byte(0)
	if n.acknowledge {
		acknowledge = 1
	}
	return string(append(out, byte(n.fields), byte(n.shelf), acknowledge))
}

// errLost is why a transition is not tried.
var errLost = errors.New("one before it did not come about")

// add takes up a transition, unless it cannot be written, or one that it is decided
// on is lost, and reports whether it did.
func (b *commitBatch) add(c Commit, lost bool) bool { //nolint:revive // flag-parameter: it is what is known of the execution
	b.names = append(b.names, c.Execution)
	err := c.check(b)
	if err == nil && lost {
		err = errLost
	}
	b.refused = append(b.refused, err)
	if err != nil {
		return false
	}
	k, head := b.store.keys, len(b.args)
	first := len(b.keys) + 1
	b.keys = append(b.keys, k.execution(c.Tenant, c.Execution), k.history(c.Tenant, c.Execution))
	for _, typ := range c.Listen {
		b.keys = append(b.keys, k.listeners(c.Tenant, typ))
	}
	for _, typ := range c.Unlisten {
		b.keys = append(b.keys, k.listeners(c.Tenant, typ))
	}
	entry, shelf := "", 0
	if c.Message != nil {
		entry = c.Message.ID
		b.answered(entry)
	}
	if c.Ended {
		shelf = shelfKey(c.Status)
	}
	b.args = append(b.args, nil, entry, c.Version, c.Execution, c.workflow(), c.started().UnixMilli())
	b.args = b.store.appendExecution(b.args, c)
	fields := len(b.args) - head - headArguments
	for i := range c.History {
		b.addEvent(&c, &c.History[i])
	}
	kept := 0 // of the history, as far as it has been published
	for i := range c.Publish {
		kept = b.addPublished(&c, &c.Publish[i], kept)
	}
	for _, t := range c.Cancel {
		b.args = append(b.args, member(t), tombstone(t))
	}
	b.args[head] = counts{
		length: len(b.args) - head, key: first, history: len(c.History), publish: len(c.Publish), cancel: len(c.Cancel),
		join: len(c.Listen), leave: len(c.Unlisten), fields: fields, shelf: shelf, acknowledge: c.Ack && entry != "",
	}.text()
	return true
}

// run has the script make the transitions.
func (b *commitBatch) run(ctx context.Context) ([]Committing, error) {
	var done []any
	if len(b.args) > batchArguments {
		b.args[3], b.args[4], b.args[5] = b.first, b.last, lookedAt(len(b.names))
		var err error
		if done, err = commitScript.Run(ctx, b.store.rdb, b.keys, b.args...).Slice(); err != nil {
			return nil, failed("commit", err)
		}
	}
	out := make([]Committing, len(b.names))
	for i, name := range b.names {
		switch {
		case errors.Is(b.refused[i], errLost):
			out[i].Outcome = Conflict
			continue
		case b.refused[i] != nil:
			out[i] = Committing{Fenced, b.refused[i]}
			continue
		}
		if len(done) == 0 {
			return nil, failed("commit", errReply)
		}
		switch result := done[0].(type) {
		case int64:
			out[i].Outcome = Outcome(result)
		case string:
			out[i] = Committing{Fenced, failed("commit "+name, errors.New(result))}
		default:
			return nil, failed("commit "+name, errReply)
		}
		done = done[1:]
	}
	return out, nil
}

// addEvent adds an event, in few arguments if it is one of the execution like most.
func (b *commitBatch) addEvent(c *Commit, e *event.Event) {
	if !c.usual(e) || len(e.Ext) > 0 {
		b.args = b.store.appendEvent(b.args, *e)
		return
	}
	if at := b.stamp; !at.Equal(e.Time) || b.stamped == nil {
		b.stamp, b.stamped = e.Time, e.Time.UTC().Format(time.RFC3339Nano)
	}
	b.args = append(b.args, "", &e.ID, &e.Source, (*string)(&e.Type), b.stamped, &e.Task, b.store.sealer.Seal(e.Data))
}

// addPublished adds an event to publish. Most are entries of the history as well, in
// its order: one is looked for behind those before it, and the place behind it returned.
func (b *commitBatch) addPublished(c *Commit, e *event.Event, from int) int {
	definition := e.Ext[event.DefinitionAttribute]
	bare := len(e.Ext) == 0 || len(e.Ext) == 1 && definition != "" && e.Task != ""
	for i := from; i < len(c.History) && bare && c.usual(e); i++ {
		h := &c.History[i]
		if h.ID == e.ID && len(h.Ext) == 0 && h.Type == e.Type && h.Source == e.Source && h.Task == e.Task &&
			h.Time.Equal(e.Time) && h.Workflow == e.Workflow && bytes.Equal(h.Data, e.Data) {
			b.args = append(b.args, "@", i+1, definition)
			return i + 1
		}
	}
	b.addEvent(c, e)
	return from
}

// appendEvent appends the fields of an event, behind their count.
func (s *Store) appendEvent(args []any, e event.Event) []any {
	fields := s.fields(e)
	args = append(args, len(fields))
	for i := range fields {
		args = append(args, &fields[i])
	}
	return args
}

// appendExecution appends the fields of the execution that a commit sets, the
// status first.
func (s *Store) appendExecution(args []any, c Commit) []any {
	args = append(args, "status", c.Status)
	add := func(name, value string) {
		if value != "" {
			args = append(args, name, value)
		}
	}
	if c.Version == 0 {
		add("workflow", c.Workflow)
		add("definition", c.Definition)
		add("parent", c.Parent)
		add("parent_task", c.ParentTask)
		add("created", c.started().UTC().Format(time.RFC3339Nano))
	}
	add("output", string(s.sealer.Seal(c.Output)))
	add("error", string(s.sealer.Seal(c.Error)))
	if c.Ended {
		add("ended", c.Now.UTC().Format(time.RFC3339Nano))
	} else if c.State != nil {
		add("state", string(s.sealer.Seal(c.State)))
		add("state_version", strconv.FormatInt(c.Version+int64(len(c.History)), 10))
	}
	return args
}
