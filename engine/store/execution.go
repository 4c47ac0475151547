package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// Execution is what Redis knows of an execution besides its history.
type Execution struct {
	Tenant, ID         string
	Workflow           string // "namespace.name"
	Definition         string // hash of the document
	Status             string
	Version            int64 // entries in the history
	Output, Error      json.RawMessage
	Parent, ParentTask string
	CreatedAt, EndedAt time.Time
	State              []byte // the last snapshot …
	StateVersion       int64  // … and its version
}

// Start begins an execution: e is its ExecutionStarted. One of the same id is ErrExists.
func (s *Store) Start(ctx context.Context, e event.Event) error {
	if err := checkExecution(e.Tenant, e.Execution); err != nil {
		return err
	}
	fields := []any{
		"status", "pending", "version", "0", "workflow", e.Workflow,
		"created", e.Time.UTC().Format(time.RFC3339Nano),
	}
	args := append([]any{e.Time.UnixMilli(), e.Execution, len(fields)}, fields...)
	for _, field := range s.fields(e) {
		args = append(args, field)
	}
	if err := s.know(ctx, e.Tenant); err != nil {
		return err
	}
	keys := []string{s.keys.stream(e.Tenant), s.keys.execution(e.Tenant, e.Execution), s.keys.executions(e.Tenant, openShelf)}
	done, err := startScript.Run(ctx, s.rdb, keys, args...).Int()
	if err != nil {
		return failed("start "+e.Execution, err)
	}
	if done == 0 {
		return fmt.Errorf("execution %s: %w", e.Execution, ErrExists)
	}
	return nil
}

// Execution reads what is known of an execution; ErrNotFound if nothing is.
func (s *Store) Execution(ctx context.Context, tenant, id string) (Execution, error) {
	x := Execution{Tenant: tenant, ID: id}
	if err := CheckTenant(tenant); err != nil {
		return x, err
	}
	fields, err := s.rdb.HGetAll(ctx, s.keys.execution(tenant, id)).Result()
	if err != nil {
		return x, failed("read execution "+id, err)
	}
	if len(fields) == 0 {
		return x, fmt.Errorf("execution %s: %w", id, ErrNotFound)
	}
	x.Output, x.Error, x.State = s.unsealed(fields["output"]), s.unsealed(fields["error"]), s.unsealed(fields["state"])
	return x, x.read(fields)
}

// read takes up the fields of an execution that are not sealed.
func (x *Execution) read(fields map[string]string) (err error) {
	x.Workflow, x.Definition, x.Status = fields["workflow"], fields["definition"], fields["status"]
	x.Parent, x.ParentTask = fields["parent"], fields["parent_task"]
	x.CreatedAt, x.EndedAt = moment(fields["created"]), moment(fields["ended"])
	for name, n := range map[string]*int64{"version": &x.Version, "state_version": &x.StateVersion} {
		if text := fields[name]; text != "" {
			if *n, err = strconv.ParseInt(text, 10, 64); err != nil {
				return fmt.Errorf("execution %s: its %s is %q", x.ID, name, text)
			}
		}
	}
	return nil
}

func (s *Store) unsealed(text string) []byte {
	if text == "" {
		return nil
	}
	return s.sealer.Unseal([]byte(text))
}

// moment reads a time that this package wrote; zero if there is none.
func moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// History reads up to count entries of a history, after a version.
func (s *Store) History(ctx context.Context, tenant, id string, after int64, count int) ([]event.Event, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	from := strconv.FormatInt(after+1, 10) + "-0"
	entries, err := s.rdb.XRangeN(ctx, s.keys.history(tenant, id), from, "+", int64(count)).Result()
	if err != nil {
		return nil, failed("read the history of "+id, err)
	}
	out := make([]event.Event, 0, len(entries))
	for _, entry := range entries {
		e, err := s.decode(entry)
		if err != nil {
			return nil, fmt.Errorf("history of execution %s, entry %s: %w", id, entry.ID, err)
		}
		out = append(out, e)
	}
	return out, nil
}

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
}

// Outcome is what became of a Commit.
type Outcome int

// The outcomes of a Commit.
const (
	Committed Outcome = iota
	Conflict          // the execution has another version: reload it and decide again
	Fenced            // the message belongs to another consumer, or was acknowledged
)

// Commit writes a transition, all of it or nothing.
func (s *Store) Commit(ctx context.Context, c Commit) (Outcome, error) {
	if err := c.check(); err != nil {
		return Fenced, err
	}
	keys, args := s.commitArguments(c)
	n, err := commitScript.Run(ctx, s.rdb, keys, args...).Int()
	if err != nil {
		return Fenced, failed("commit "+c.Execution, err)
	}
	return Outcome(n), nil
}

// check says what the script could only find out half way through.
func (c Commit) check() error {
	if err := checkExecution(c.Tenant, c.Execution); err != nil {
		return err
	}
	if c.Message != nil && c.Message.Tenant != c.Tenant {
		return fmt.Errorf("%w: a message of tenant %s cannot commit an execution of %s", ErrName, c.Message.Tenant, c.Tenant)
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

// commitArguments are the keys and arguments of the script, in its order.
func (s *Store) commitArguments(c Commit) (keys []string, args []any) {
	keys = []string{
		s.keys.stream(c.Tenant), s.keys.execution(c.Tenant, c.Execution),
		s.keys.history(c.Tenant, c.Execution), s.keys.timers(c.Tenant),
		s.keys.executions(c.Tenant, openShelf), s.keys.executions(c.Tenant, faultedShelf),
		s.keys.executions(c.Tenant, shelfOf(c.Status)),
	}
	for _, typ := range c.Listen {
		keys = append(keys, s.keys.listeners(c.Tenant, typ))
	}
	for _, typ := range c.Unlisten {
		keys = append(keys, s.keys.listeners(c.Tenant, typ))
	}
	var m Message
	if c.Message != nil {
		m = *c.Message
	}
	fields := s.executionFields(c)
	args = make([]any, 0, 16+len(fields)+22*(len(c.History)+len(c.Publish)))
	args = append(args, m.Group, m.ID, m.Consumer, c.Version, set(c.Ack), set(c.Ended),
		len(fields), len(c.History), len(c.Publish), len(c.Cancel), len(c.Listen))
	args = append(args, fields...)
	for _, e := range c.History {
		args = s.appendEvent(args, e)
	}
	for _, e := range c.Publish {
		args = s.appendEvent(args, e)
	}
	for _, t := range c.Cancel {
		args = append(args, member(t), tombstone(t))
	}
	return keys, append(args, c.Execution, c.Now.UnixMilli())
}

func (s *Store) appendEvent(args []any, e event.Event) []any {
	fields := s.fields(e)
	args = append(args, len(fields))
	for _, field := range fields {
		args = append(args, field)
	}
	return args
}

// executionFields are the fields of the execution that a commit sets.
func (s *Store) executionFields(c Commit) []any {
	fields := []any{"status", c.Status}
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
		add("created", c.Now.UTC().Format(time.RFC3339Nano))
	}
	add("output", string(s.sealer.Seal(c.Output)))
	add("error", string(s.sealer.Seal(c.Error)))
	if c.Ended {
		add("ended", c.Now.UTC().Format(time.RFC3339Nano))
	} else if c.State != nil {
		add("state", string(s.sealer.Seal(c.State)))
		add("state_version", strconv.FormatInt(c.Version+int64(len(c.History)), 10))
	}
	return fields
}

// set is a truth as scripts read it.
func set(on bool) string { //nolint:revive // flag-parameter: it is what is written
	if on {
		return "1"
	}
	return ""
}

// Reply answers a message with an event. It reports false, and does nothing, if
// the message is not the consumer's any more.
func (s *Store) Reply(ctx context.Context, m Message, e event.Event) (mine bool, err error) {
	args := s.appendEvent([]any{m.Group, m.ID, m.Consumer}, e)
	n, err := replyScript.Run(ctx, s.rdb, []string{s.keys.stream(m.Tenant)}, args...).Int()
	return n == 1, failed("reply", err)
}

// Settle acknowledges a message that means nothing more, as far as it is still the
// consumer's: one that is another's by now may mean something to it.
func (s *Store) Settle(ctx context.Context, m Message) error {
	err := replyScript.Run(ctx, s.rdb, []string{s.keys.stream(m.Tenant)}, m.Group, m.ID, m.Consumer).Err()
	return failed("acknowledge", err)
}

// Bury gives a message up: it goes to the dead letters, and the events to the
// stream. It reports false, and does nothing, if the message is not the
// consumer's any more.
func (s *Store) Bury(ctx context.Context, m Message, d event.Dead, publish []event.Event) (mine bool, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	last := now.Format(time.RFC3339Nano)
	first := m.field(firstFailureField)
	if first == "" {
		first = last
	}
	letter := append(anys(m.sent()),
		"reason", string(s.sealer.Seal([]byte(d.Reason))), "attempts", strconv.Itoa(d.Attempts), "service", d.Service,
		"source_stream", s.keys.stream(m.Tenant), "source_id", m.ID, "first_failure", first, "last_failure", last)
	args := append([]any{m.Group, m.ID, m.Consumer, len(letter)}, letter...)
	for _, e := range publish {
		args = s.appendEvent(args, e)
	}
	keys := []string{s.keys.stream(m.Tenant), s.keys.dead(m.Tenant)}
	n, err := buryScript.Run(ctx, s.rdb, keys, args...).Int()
	return n == 1, failed("bury", err)
}

func anys(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// Listeners are the executions that wait for events of a type, or for any.
func (s *Store) Listeners(ctx context.Context, tenant, eventType string) ([]string, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	ids, err := s.rdb.SUnion(ctx, s.keys.listeners(tenant, eventType), s.keys.listeners(tenant, "*")).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, failed("read who listens for "+eventType, err)
	}
	return sorted(ids), nil
}
