package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
)

// Commit is one transition of an execution.
type Commit struct {
	Message *Message // that it answers; nil for none
	Ack     bool     // acknowledge the message

	Tenant, Execution  string
	Version            int64         // that the decision was made on; 0 also creates the execution
	History            []event.Event // become versions Version+1, Version+2, …
	Publish            []event.Event // to the tenant's stream
	Cancel             []event.Timer // also those that are still on their way to the timer service
	Listen, Unlisten   []string      // types of events to be woken for, "*" for all
	Workflow           string
	Definition         string // hash of the document
	Parent, ParentTask string
	Status             string
	Output, Error      json.RawMessage
	Ended              bool   // nothing can follow: the snapshot goes
	State              []byte // a snapshot to keep; nil keeps the last one
	Now                time.Time
	Started            time.Time // by which executions are listed; zero stands for Now
}

// Outcome is what became of a Commit.
type Outcome int

// The outcomes of a Commit.
const (
	Committed Outcome = iota
	Conflict          // the execution has another version: reload it and decide again
	Fenced            // the message belongs to another consumer, or was acknowledged
)

// Committing is what became of one of several commits.
type Committing struct {
	Outcome Outcome
	Err     error // nothing was written
}

// Commit writes a transition, all of it or nothing.
func (s *Store) Commit(ctx context.Context, c Commit) (Outcome, error) {
	done, err := s.CommitAll(ctx, []Commit{c})
	if err != nil {
		return Fenced, err
	}
	return done[0].Outcome, done[0].Err
}

// How much one script is given to do: Redis does nothing else meanwhile.
const (
	mostTransitions = 100
	mostArguments   = 20_000
)

// Arguments of a transition before its fields, and of an event, as a rule.
const (
	headArguments  = 15
	eventArguments = 8
)

// CommitAll writes transitions in their order, each of them whole or not at all.
// One that does not come about keeps none but those of its own execution behind it:
// they are conflicts. All are of one tenant, and answer messages of one consumer.
// With an error it is not known which were written.
func (s *Store) CommitAll(ctx context.Context, commits []Commit) ([]Committing, error) {
	out := make([]Committing, 0, len(commits))
	lost := map[string]bool{} // executions
	for len(commits) > 0 {
		b := s.newCommitBatch(commits)
		n := 0
		for n < len(commits) && b.fits(commits[n]) {
			if !b.add(commits[n], lost[commits[n].Execution]) {
				lost[commits[n].Execution] = true
			}
			n++
		}
		done, err := b.run(ctx)
		if err != nil {
			return nil, err
		}
		for i, d := range done {
			if d.Err != nil || d.Outcome != Committed {
				lost[commits[i].Execution] = true
			}
		}
		out, commits = append(out, done...), commits[n:]
	}
	return out, nil
}

// commitBatch is the keys and arguments of a commitScript.
type commitBatch struct {
	store   *Store
	tenant  string
	owner   Message
	names   []string // of the executions, for errors
	refused []error  // why one is not given to the script; nil if it is
	keys    []string
	args    []any

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
	size := 3
	for _, c := range commits[:min(len(commits), mostTransitions)] {
		size += headArguments + 20 + eventArguments*(len(c.History)+len(c.Publish)) + 2*len(c.Cancel)
	}
	b.args = append(make([]any, 0, min(size, mostArguments)), b.owner.Group, b.owner.Consumer, b.tenant)
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
	}
	if c.Ended {
		shelf = shelfKey(c.Status)
	}
	b.args = append(b.args, 0, first, entry, c.Version, set(c.Ack && entry != ""), shelf, c.Execution, c.workflow(), c.started().UnixMilli(),
		0, len(c.History), len(c.Publish), len(c.Cancel), len(c.Listen), len(c.Unlisten))
	fields := len(b.args)
	b.args = b.store.appendExecution(b.args, c)
	b.args[head+9] = len(b.args) - fields
	for i := range c.History {
		b.addEvent(c, &c.History[i])
	}
	for i := range c.Publish {
		b.addEvent(c, &c.Publish[i])
	}
	for _, t := range c.Cancel {
		b.args = append(b.args, member(t), tombstone(t))
	}
	b.args[head] = len(b.args) + 1
	return true
}

// run has the script make the transitions.
func (b *commitBatch) run(ctx context.Context) ([]Committing, error) {
	var done []any
	if len(b.args) > 3 {
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

// check says what the script could only find out half way through.
func (c Commit) check(b *commitBatch) error {
	if err := checkExecution(c.Tenant, c.Execution); err != nil {
		return err
	}
	if c.Tenant != b.tenant {
		return fmt.Errorf("%w: a commit of tenant %s among those of %s", ErrName, c.Tenant, b.tenant)
	}
	if m := c.Message; m != nil && (m.Tenant != c.Tenant || m.Group != b.owner.Group || m.Consumer != b.owner.Consumer) {
		return fmt.Errorf("%w: a message of tenant %s cannot commit an execution of %s", ErrName, m.Tenant, c.Tenant)
	}
	for _, events := range [][]event.Event{c.History, c.Publish} {
		for _, e := range events {
			if n := len(e.Ext); n >= mostFields {
				return fmt.Errorf("commit %s: event %s has %d further attributes, want less than %d", c.Execution, e.ID, n, mostFields)
			}
		}
	}
	return nil
}

func (c Commit) started() time.Time { return cmp.Or(c.Started, c.Now) }

// workflow is that of the events of a commit.
func (c Commit) workflow() string {
	switch {
	case len(c.History) > 0:
		return c.History[0].Workflow
	case len(c.Publish) > 0:
		return c.Publish[0].Workflow
	default:
		return c.Workflow
	}
}

// addEvent adds an event, in few arguments if it is one of the execution like most.
// The event stays where it is until the batch is sent.
func (b *commitBatch) addEvent(c Commit, e *event.Event) {
	definition := ""
	if len(e.Ext) == 1 && e.Task != "" {
		definition = e.Ext[event.DefinitionAttribute]
	}
	usual := e.Tenant == c.Tenant && e.Execution == c.Execution && e.Workflow == c.workflow() && e.Workflow != "" &&
		e.ID != "" && e.Source != "" && e.Type != "" && !e.Time.IsZero() && len(e.Data) > 0 && (len(e.Ext) == 0 || definition != "")
	if !usual {
		b.args = b.store.appendEvent(b.args, *e)
		return
	}
	if at := b.stamp; !at.Equal(e.Time) || b.stamped == nil {
		b.stamp, b.stamped = e.Time, e.Time.UTC().Format(time.RFC3339Nano)
	}
	b.args = append(b.args, "", &e.ID, &e.Source, (*string)(&e.Type), b.stamped, &e.Task, b.store.sealer.Seal(e.Data), definition)
}

// appendEvent appends the fields of an event, behind their count.
func (s *Store) appendEvent(args []any, e event.Event) []any {
	fields := s.fields(e)
	args = append(args, len(fields))
	for _, field := range fields {
		args = append(args, field)
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

// set is a truth as scripts read it.
func set(on bool) string { //nolint:revive // flag-parameter: it is what is written
	if on {
		return "1"
	}
	return ""
}
