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
	Snapshot           []byte // the last one
	SnapshotVersion    int64
}

// Start begins an execution: e is its ExecutionStarted. One of the same id is ErrExists.
func (s *Store) Start(ctx context.Context, e event.Event) error {
	if err := checkExecution(e.Tenant, e.Execution); err != nil {
		return err
	}
	if err := s.know(ctx, e.Tenant); err != nil {
		return err
	}
	const keys, own, fields, each = 3, 6, 8, 40 // of the execution, and room for those of the event
	l := textList{list: make([]any, beforeKeys, each), texts: make([]string, 0, own)}
	h := s.keysFor(e.Tenant)
	key, _ := h.execution(e.Execution)
	l.add(h.stream, key, h.open)
	l.list = append(l.list, e.Time.UnixMilli())
	l.add(e.Execution)
	l.list = append(l.list, fields, "status", "pending", "version", "0", "workflow")
	l.add(e.Workflow)
	l.list = append(l.list, "created")
	l.add(e.Time.UTC().Format(time.RFC3339Nano))
	said := s.fields(e)
	for i := range said {
		l.list = append(l.list, &said[i])
	}
	done, err := s.call(ctx, startScript, keys, l.list).Int()
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
	fields, err := s.rdb.HGetAll(ctx, s.keys.Execution(tenant, id)).Result()
	if err != nil {
		return x, failed("read execution "+id, err)
	}
	if len(fields) == 0 {
		return x, fmt.Errorf("execution %s: %w", id, ErrNotFound)
	}
	x.Output, x.Error, x.Snapshot = s.unsealed(fields["output"]), s.unsealed(fields["error"]), s.unsealed(fields["snapshot"])
	return x, x.read(fields)
}

// read takes up the fields of an execution that are not sealed.
func (x *Execution) read(fields map[string]string) (err error) {
	x.Workflow, x.Definition, x.Status = fields["workflow"], fields["definition"], fields["status"]
	x.Parent, x.ParentTask = fields["parent"], fields["parent_task"]
	x.CreatedAt, x.EndedAt = moment(fields["created"]), moment(fields["ended"])
	for name, n := range map[string]*int64{"version": &x.Version, "snapshot_version": &x.SnapshotVersion} {
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
	in := s.memory.bufferPool.take()
	defer s.memory.bufferPool.back(in)
	entries := in.rangeOf(ctx, s.keys.history(tenant, id), after, count)
	if err := s.rdb.Process(ctx, entries); err != nil {
		return nil, failed("read the history of "+id, err)
	}
	return s.history(id, in.reply())
}

// history reads the reply of XRANGE.
func (s *Store) history(id string, text []byte) ([]event.Event, error) {
	if why := refusal(text); why != "" {
		return nil, failed("read the history of "+id, errors.New(why))
	}
	in := reply{text: text}
	n := max(in.list(), 0)
	out := make([]event.Event, 0, n)
	var few [fewSpans]span
	entry := rawEntry{fields: few[:0]}
	for range n {
		if in.entry(&entry); in.bad {
			break
		}
		fields, _, _ := entry.texts()
		e, err := s.decode(fields)
		if err != nil {
			return nil, fmt.Errorf("history of execution %s, entry %s: %w", id, entry.identifier(), err)
		}
		out = append(out, e)
	}
	if in.bad {
		return nil, failed("read the history of "+id, errReply)
	}
	return out, nil
}

// Whole is an execution with its whole history.
type Whole struct {
	Execution

	History []event.Event
}

// Wholes reads executions in one round trip. Those are left out that do not exist,
// cannot be read, or have a history of more entries than most.
func (s *Store) Wholes(ctx context.Context, tenant string, ids []string, most int) ([]Whole, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	pipe, fields := s.rdb.Pipeline(), make([]*redis.MapStringStringCmd, len(ids))
	in := s.memory.bufferPool.several(len(ids))
	defer s.memory.bufferPool.back(in...)
	entries := make([]*prompt, len(ids))
	for i, id := range ids {
		fields[i] = pipe.HGetAll(ctx, s.keys.Execution(tenant, id))
		entries[i] = in[i].rangeOf(ctx, s.keys.history(tenant, id), 0, most)
		_ = pipe.Process(ctx, entries[i]) // Exec says what is wrong
	}
	if _, err := pipe.Exec(ctx); err != nil && Temporary(failed("", err)) {
		return nil, failed("read executions", err)
	}
	var out []Whole
	for i, id := range ids {
		w := Whole{Execution: Execution{Tenant: tenant, ID: id}}
		if fields[i].Err() != nil || len(fields[i].Val()) == 0 || w.read(fields[i].Val()) != nil {
			continue
		}
		w.Output, w.Error = s.unsealed(fields[i].Val()["output"]), s.unsealed(fields[i].Val()["error"])
		var err error
		if w.History, err = s.history(id, in[i].reply()); err == nil && int64(len(w.History)) == w.Version {
			out = append(out, w)
		}
	}
	return out, nil
}

// Tail is what an execution's history has behind a version.
type Tail struct {
	ID      string
	After   int64
	History []event.Event
	Err     error // why it could not be read
}

// Tails reads tails in one round trip, each up to so many entries.
func (s *Store) Tails(ctx context.Context, tenant string, tails []Tail, most int) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	in := s.memory.bufferPool.several(len(tails))
	defer s.memory.bufferPool.back(in...)
	pipe, entries := s.rdb.Pipeline(), make([]*prompt, len(tails))
	for i, t := range tails {
		entries[i] = in[i].rangeOf(ctx, s.keys.history(tenant, t.ID), t.After, most)
		_ = pipe.Process(ctx, entries[i]) // Exec says what is wrong
	}
	if _, err := pipe.Exec(ctx); err != nil && Temporary(failed("", err)) {
		return failed("read histories", err)
	}
	for i := range tails {
		t := &tails[i]
		if t.Err = entries[i].Err(); t.Err == nil {
			t.History, t.Err = s.history(t.ID, in[i].reply())
		}
	}
	return nil
}

// eventArguments is how many arguments most events are.
const eventArguments = 9

// appendEvent appends an event as event.lua has it. In a history it has a task, if only an empty one.
func (s *Store) appendEvent(args []any, e *event.Event, tenant string, history bool) []any {
	if usual(e, tenant) && len(e.Ext) == 0 && (history || e.Task != "") {
		return append(args, "", s.sealer.text(e.ID), s.sealer.text(e.Source), (*string)(&e.Type), e.Time.UTC().Format(time.RFC3339Nano),
			&e.Workflow, &e.Execution, &e.Task, s.sealer.Seal(e.Data))
	}
	fields := anys(s.fields(*e))
	return append(append(args, len(fields)), fields...)
}

// usual reports whether an event has the attributes that most have.
func usual(e *event.Event, tenant string) bool {
	return e.Tenant == tenant && e.Execution != "" && e.Workflow != "" && e.ID != "" && e.Source != "" && e.Type != "" &&
		!e.Time.IsZero() && len(e.Data) > 0
}

func anys(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}
