package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// Commit is one transition of an execution.
type Commit struct {
	Message *Message // the message that it handles; nil if none
	Ack     bool     // acknowledge the message

	DeadLetter *event.Dead // why to acknowledge and dead-letter the message; nil: do not

	Tenant, Execution  string
	Version            int64         // version that the decision is based on; 0 creates the execution
	History            []event.Event // appended as versions Version+1, Version+2, …
	Publish            []event.Event // appended to the tenant's stream
	Cancel             []event.Timer // may still be on their way to the timer service
	Input              *InputResult  // outcome of the input that the message delivers; nil if it delivers none
	Listen, Unlisten   []string      // event types to subscribe to and unsubscribe from; "*" is any
	Workflow           string
	Definition         string // hash of the document, stored when the execution is created
	Migrated           string // hash of the document to continue with; "": the same one
	Parent, ParentTask string
	Root               string // the outermost ancestor; "": do not count the execution as a descendant
	Status             string
	Output, Error      json.RawMessage
	Ended              bool   // the execution has ended: the snapshot is deleted
	Damaged            bool   // a missing history is not an error
	Snapshot           []byte // replaces the last one; nil keeps it
	Now                time.Time
	Started            time.Time // orders lists of executions; zero stands for Now
}

// Outcome is the outcome of a Commit.
type Outcome int

// The outcomes.
const (
	Committed Outcome = iota
	Conflict          // the execution has another version: reload it and decide again
	Fenced            // the message belongs to another consumer, or was acknowledged
)

// Committing is the result of one commit of CommitAll.
type Committing struct {
	Outcome Outcome
	Err     error // why nothing was written; nil if Outcome is valid
}

// Commit writes a transition, completely or not at all.
func (s *Store) Commit(ctx context.Context, c Commit) (Outcome, error) {
	done, err := s.CommitAll(ctx, []Commit{c})
	if err != nil {
		return Fenced, err
	}
	return done[0].Outcome, done[0].Err
}

// Limits of one script call. Redis serves no other client while it runs.
const (
	maxTransitions = 100
	maxArguments   = 20_000
)

// CommitAll writes transitions in order, each completely or not at all. If one is not written,
// later ones of the same execution become conflicts; others are not affected. All must belong to
// one tenant and handle messages of one consumer. After an error it is unknown which were written.
func (s *Store) CommitAll(ctx context.Context, commits []Commit) ([]Committing, error) {
	out := make([]Committing, len(commits))
	lost := map[string]bool{} // executions with a transition that was not written
	for from, to := 0, 0; to < len(commits); from = to {
		b := s.newCommitBatch(commits[from:])
		sent := make([]int, 0, len(commits)-from) // indexes of the transitions in the batch; it leaves out those that cannot be written
		for ; to < len(commits) && (to == from || to-from < maxTransitions && b.fits(&commits[to])); to++ {
			c := &commits[to]
			switch err := c.check(b); {
			case err != nil:
				out[to], lost[c.Execution] = Committing{Fenced, err}, true
			case lost[c.Execution]:
				out[to].Outcome = Conflict
			default:
				b.add(c)
				sent = append(sent, to)
			}
		}
		if len(sent) == 0 {
			continue
		}
		k, t := s.keys, b.tenant
		keys := append([]string{
			k.Stream(t), k.Timers(t), k.Executions(t, openIndex), k.Executions(t, faultedIndex), k.Executions(t, completedIndex), k.Executions(t, cancelledIndex),
			k.TimerKeys(t), k.ForgottenKeys(t), k.Inputs(t),
		}, b.keys...)
		args := []any{b.group, b.consumer, t, b.answered.First, b.answered.Last, PendingCount(len(sent)), !s.rdb.Embedded, len(b.deadLetter)}
		replies, err := commitScript().Run(ctx, s.rdb, keys, slices.Concat(args, b.deadLetter, b.args)...).Slice()
		if err == nil && len(replies) != len(sent) {
			err = wire.ErrReply
		}
		if err != nil {
			return nil, Failed("commit", err)
		}
		for i, at := range sent {
			id := commits[at].Execution
			switch result := replies[i].(type) {
			case int64:
				out[at].Outcome = Outcome(result)
			case string:
				out[at] = Committing{Fenced, Failed("commit "+id, errors.New(result))}
			default:
				return nil, Failed("commit "+id, wire.ErrReply)
			}
			if out[at].Outcome != Committed {
				lost[id] = true
			}
		}
	}
	return out, nil
}

// check checks what the script cannot check before its first write.
func (c *Commit) check(b *commitBatch) error {
	if err := CheckIDs(c.Tenant, c.Execution); err != nil {
		return err
	}
	if c.Tenant != b.tenant {
		return fmt.Errorf("%w: a commit of tenant %s among those of %s", ErrName, c.Tenant, b.tenant)
	}
	if m := c.Message; m != nil && (m.Tenant != c.Tenant || m.Group != b.group || m.Consumer != b.consumer) {
		return fmt.Errorf("%w: a message of tenant %s cannot commit an execution of %s", ErrName, m.Tenant, c.Tenant)
	}
	for _, events := range [][]event.Event{c.History, c.Publish} {
		for _, e := range events {
			if n := len(e.Ext); n >= MaxFields {
				return fmt.Errorf("commit %s: event %s has %d extension attributes, want fewer than %d", c.Execution, e.ID, n, MaxFields)
			}
		}
	}
	return nil
}

func (c *Commit) started() time.Time { return cmp.Or(c.Started, c.Now) }

// commitBatch collects the keys and arguments of a commitScript.
type commitBatch struct {
	store           *Store
	tenant          string
	group, consumer string   // of the messages; empty if there are none
	keys            []string // of the executions
	args            []any    // of the transitions
	answered        IDRange  // of the entries of the messages
	deadLetter      []any    // fields of the dead letter of the only transition, if it has one
}

func (s *Store) newCommitBatch(commits []Commit) *commitBatch {
	b := &commitBatch{store: s, tenant: commits[0].Tenant}
	const usual = 29 // arguments of a transition besides its events
	size := 0
	for i := range commits {
		size += usual + eventArguments*(len(commits[i].History)+len(commits[i].Publish))
	}
	b.args = make([]any, 0, min(size, maxArguments))
	for i := range commits {
		if m := commits[i].Message; m != nil {
			b.group, b.consumer = m.Group, m.Consumer
			break
		}
	}
	return b
}

// fits reports whether a batch with some transitions has space for another one.
func (b *commitBatch) fits(c *Commit) bool {
	n := len(c.History) + len(c.Publish)
	return len(b.args)+eventArguments*n < maxArguments && c.DeadLetter == nil && len(b.deadLetter) == 0
}

// add adds a transition.
func (b *commitBatch) add(c *Commit) {
	k, execution := b.store.keys, b.store.keys.Execution(c.Tenant, c.Execution)
	history := execution + historySuffix
	b.keys = append(b.keys, execution, history)
	descends, from := c.Root != "", len(b.keys)
	for _, typ := range c.Listen {
		b.keys = append(b.keys, k.Listeners(c.Tenant, typ))
	}
	if descends && c.Version == 0 && !c.Ended {
		b.keys = append(b.keys, k.descendants(c.Tenant, c.Root))
	}
	join := len(b.keys) - from
	for _, typ := range c.Unlisten {
		b.keys = append(b.keys, k.Listeners(c.Tenant, typ))
	}
	if descends && c.Version > 0 && c.Ended {
		b.keys = append(b.keys, k.descendants(c.Tenant, c.Root))
	}
	leave := len(b.keys) - from - join
	if c.Ended {
		b.keys = append(b.keys, history+historySuffix) // no execution has an id that ends like this
	}
	if c.DeadLetter != nil {
		b.deadLetter = b.store.DeadLetterArgs(*c.Message, *c.DeadLetter, c.Message.Read)
		b.keys = append(b.keys, k.DeadLetters(c.Tenant))
	}
	entry, index := "", 0
	if c.Message != nil {
		entry = c.Message.ID
		b.answered.Add(entry)
	}
	if c.Ended {
		index = 3 + slices.Index([]string{openIndex, faultedIndex, completedIndex, cancelledIndex}, indexOf(c.Status)) // the number of its key
	}
	fields := b.store.commitFields(c)
	var input []any
	if c.Input != nil {
		input = c.Input.args(b.store)
	}
	begin := len(b.args)
	b.args = append(b.args, 0, // the number of arguments of the transition, set below
		entry, (c.Ack || c.DeadLetter != nil) && c.Message != nil, c.Execution, c.started().UnixMilli(), c.Version, c.Status, index, c.Damaged, c.evenIfFull(),
		join, leave, len(fields), len(c.History), len(c.Publish), len(c.Cancel), len(input))
	b.args = append(b.args, fields...)
	for i := range c.History {
		b.args = b.store.AppendEvent(b.args, &c.History[i], c.Tenant, true)
	}
	b.args = b.store.appendPublished(b.args, c)
	for _, t := range c.Cancel {
		b.args = append(b.args, event.TimerText(&t), Tombstone(t))
	}
	b.args = append(b.args, input...)
	b.args[begin] = len(b.args) - begin
}

// commitFields returns the fields that a commit sets, except version and status.
func (s *Store) commitFields(c *Commit) (fields []any) {
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, name, value)
		}
	}
	if c.Version == 0 {
		add("workflow", c.Workflow)
		add("definition", c.Definition)
		add("parent", c.Parent)
		add("parent_task", c.ParentTask)
		add("created", c.started().UTC().Format(time.RFC3339Nano))
		if len(c.History) > 0 {
			add("labels", string(event.LabelsOf(c.History[0].Data)))
		}
	}
	add("definition", c.Migrated)
	add("output", string(s.sealer.Seal(c.Output)))
	add("error", string(s.sealer.Seal(c.Error)))
	if c.Ended {
		add("ended", c.Now.UTC().Format(time.RFC3339Nano))
	} else if c.Snapshot != nil {
		add("snapshot", string(s.sealer.Seal(c.Snapshot)))
		add("snapshot_version", strconv.FormatInt(c.Version+int64(len(c.History)), 10))
	}
	return fields
}

// appendPublished appends the arguments for the events to publish. Most of them are also in the history,
// in the same order, so the index of the history entry and any extension attributes are enough.
func (s *Store) appendPublished(args []any, c *Commit) []any {
	from := 0 // in the history
	for i := range c.Publish {
		e := &c.Publish[i]
		n := c.written(e, from)
		if n < 0 {
			args = s.AppendEvent(args, e, c.Tenant, false)
			continue
		}
		from = n + 1
		args = append(args, "history", from, 2*len(e.Ext)) // name and value
		for _, name := range slices.Sorted(maps.Keys(e.Ext)) {
			args = append(args, name, s.sealer.text(e.Ext[name]))
		}
	}
	return args
}

// written returns the index of an event in the history, at or after from, or -1.
func (c *Commit) written(e *event.Event, from int) int {
	for i := from; i < len(c.History); i++ {
		h := &c.History[i]
		if h.ID == e.ID && h.Type == e.Type && h.Source == e.Source && h.Task == e.Task && h.Time.Equal(e.Time) && h.Tenant == e.Tenant &&
			h.Workflow == e.Workflow && h.Execution == e.Execution && bytes.Equal(h.Data, e.Data) &&
			plainAttributes(h, c.Tenant) && (e.Task != "" || len(e.Ext) == 0) {
			return i
		}
	}
	return -1
}

// DeadLetterArgs returns the fields of a dead letter.
func (s *Store) DeadLetterArgs(m Message, d event.Dead, now time.Time) []any {
	last := now.Format(time.RFC3339Nano)
	first := cmp.Or(wire.FieldMap(m.fields)[event.FirstFailureAttribute], last)
	return append(wire.Args(m.sent()),
		"reason", string(s.sealer.Seal([]byte(d.Reason))), "attempts", strconv.Itoa(d.Attempts), "service", d.Service,
		"source_stream", s.keys.Stream(m.Tenant), "source_id", m.ID, "first_failure", first, "last_failure", last)
}

// evenIfFull reports whether a transition is written even if Redis is full: it ends its execution or
// carries out an operator's command. An execution that ends as it begins does not qualify, since
// there may be any number of them.
func (c *Commit) evenIfFull() bool {
	return c.Version > 0 && (c.Ended || c.Message != nil && isCommand(c.Message.Event.Type))
}
