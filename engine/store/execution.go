package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// Execution is an execution as stored, without its history.
type Execution struct {
	Tenant, ID         string
	Workflow           string // "namespace.name"
	Definition         string // hash of the document
	Status             string
	Version            int64 // entries in the history
	Output, Error      json.RawMessage
	Parent, ParentTask string
	Labels             event.Labels
	CreatedAt, EndedAt time.Time
	Snapshot           []byte // the last one
	SnapshotVersion    int64
}

// Start starts an execution with its ExecutionStarted event. The error is ErrExists if an execution
// with the same id exists.
func (s *Store) Start(ctx context.Context, e event.Event) error {
	if err := CheckIDs(e.Tenant, e.Execution); err != nil {
		return err
	}
	if err := s.AddTenant(ctx, e.Tenant); err != nil {
		return err
	}
	fields := []any{"status", "pending", "version", "0", "workflow", e.Workflow, "created", e.Time.UTC().Format(time.RFC3339Nano)}
	if labels := event.LabelsOf(e.Data); len(labels) > 0 {
		fields = append(fields, "labels", string(labels))
	}
	args := slices.Concat([]any{e.Time.UnixMilli(), e.Execution, !s.rdb.Embedded, len(fields)}, fields, wire.Args(s.Fields(e)))
	done, err := startScript().Run(ctx, s.rdb, []string{s.keys.Stream(e.Tenant), s.keys.Execution(e.Tenant, e.Execution), s.keys.Executions(e.Tenant, openIndex)}, args...).Int()
	if err != nil {
		return Failed("start "+e.Execution, err)
	}
	if done == 0 {
		return fmt.Errorf("execution %s: %w", e.Execution, ErrExists)
	}
	return nil
}

// Execution reads an execution. The error is ErrNotFound if it does not exist.
func (s *Store) Execution(ctx context.Context, tenant, id string) (Execution, error) {
	none := Execution{Tenant: tenant, ID: id}
	if err := CheckTenant(tenant); err != nil {
		return none, err
	}
	fields, err := s.rdb.HGetAll(ctx, s.keys.Execution(tenant, id)).Result()
	if err != nil {
		return none, Failed("read execution "+id, err)
	}
	if len(fields) == 0 {
		return none, fmt.Errorf("execution %s: %w", id, ErrNotFound)
	}
	return s.executionOf(tenant, id, fields)
}

// executionOf reads an execution from the fields of its hash that are given.
func (s *Store) executionOf(tenant, id string, fields map[string]string) (Execution, error) {
	x := Execution{
		Tenant: tenant, ID: id, Workflow: fields["workflow"], Definition: fields["definition"], Status: fields["status"],
		Output: s.Unseal(fields["output"]), Error: s.Unseal(fields["error"]), Snapshot: s.Unseal(fields["snapshot"]),
		Parent: fields["parent"], ParentTask: fields["parent_task"],
		CreatedAt: wire.Time(fields["created"]), EndedAt: wire.Time(fields["ended"]),
	}
	if text := fields["labels"]; text != "" && json.Unmarshal([]byte(text), &x.Labels) != nil {
		return x, fmt.Errorf("execution %s: labels are %.100q, want an object of strings", id, text)
	}
	for name, n := range map[string]*int64{"version": &x.Version, "snapshot_version": &x.SnapshotVersion} {
		if text := fields[name]; text != "" {
			var err error
			if *n, err = strconv.ParseInt(text, 10, 64); err != nil {
				return x, fmt.Errorf("execution %s: %s is %q, want a number", id, name, text)
			}
		}
	}
	return x, nil
}

// History reads up to count entries of a history, after a version.
func (s *Store) History(ctx context.Context, tenant, id string, after int64, count int) ([]event.Event, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	buffer := wire.NewBuffer()
	defer wire.Return(buffer)
	if err := s.rdb.Process(ctx, historyCmd(ctx, buffer, s.keys.History(tenant, id), after, count)); err != nil {
		return nil, Failed("read the history of "+id, err)
	}
	return s.history(id, buffer)
}

// HistoryPage is the number of entries that EachPage reads at a time.
const HistoryPage = 1000

// EachPage calls take with the history of an execution after a version, up to x.Version, in
// batches. The error is a *HistoryError if entries are missing.
func (s *Store) EachPage(ctx context.Context, x Execution, after int64, take func([]event.Event) error) error {
	for after < x.Version {
		events, err := s.History(ctx, x.Tenant, x.ID, after, int(min(HistoryPage, x.Version-after)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return &HistoryError{Execution: x.ID, Have: after, Want: x.Version}
		}
		if err := take(events); err != nil {
			return err
		}
		after += int64(len(events))
	}
	return nil
}

// HistoryError reports a history whose last entries are missing.
type HistoryError struct {
	Execution  string
	Have, Want int64 // versions
}

func (e *HistoryError) Error() string {
	return fmt.Sprintf("history of execution %s ends at version %d, want %d", e.Execution, e.Have, e.Want)
}

// historyCmd reads up to count entries of a history, after a version.
func historyCmd(ctx context.Context, into *wire.Buffer, history string, after int64, count int) *wire.Cmd {
	from := strconv.FormatInt(after+1, 10) + "-0"
	return into.Cmd(ctx, []any{"xrange", history, from, "+", "count", count})
}

// WithHistory is an execution with its complete history.
type WithHistory struct {
	Execution

	History []event.Event
}

// WithHistories reads executions in one round trip. It leaves out executions that do not exist,
// cannot be read, or have more than limit entries of history.
func (s *Store) WithHistories(ctx context.Context, tenant string, ids []string, limit int) ([]WithHistory, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	pipe, fields := s.rdb.Pipeline(), make([]*redis.MapStringStringCmd, len(ids))
	buffers := wire.NewBuffers(len(ids))
	defer wire.Return(buffers...)
	for i, id := range ids {
		fields[i] = pipe.HGetAll(ctx, s.keys.Execution(tenant, id))
		_ = pipe.Process(ctx, historyCmd(ctx, buffers[i], s.keys.History(tenant, id), 0, limit)) // Exec returns the error
	}
	if err := firstTemporary(pipe.Exec(ctx)); err != nil {
		return nil, Failed("read executions", err)
	}
	var out []WithHistory
	for i, id := range ids {
		if len(fields[i].Val()) == 0 {
			continue
		}
		x, err := s.executionOf(tenant, id, fields[i].Val())
		history, otherErr := s.history(id, buffers[i])
		if err == nil && otherErr == nil && int64(len(history)) == x.Version {
			out = append(out, WithHistory{x, history})
		}
	}
	return out, nil
}

// Data is the input of an execution, and its output or error.
type Data struct{ Input, Output, Error json.RawMessage }

// DataOf reads the data of executions in one round trip. For an execution that does not exist or
// cannot be read, it is empty.
func (s *Store) DataOf(ctx context.Context, tenant string, ids ...string) ([]Data, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	pipe, fields := s.rdb.Pipeline(), make([]*redis.SliceCmd, len(ids))
	buffers := wire.NewBuffers(len(ids))
	defer wire.Return(buffers...)
	for i, id := range ids {
		fields[i] = pipe.HMGet(ctx, s.keys.Execution(tenant, id), "output", "error")
		_ = pipe.Process(ctx, historyCmd(ctx, buffers[i], s.keys.History(tenant, id), 0, 1)) // Exec returns the error
	}
	if err := firstTemporary(pipe.Exec(ctx)); err != nil {
		return nil, Failed("read the data of executions", err)
	}
	out := make([]Data, len(ids))
	for i, id := range ids {
		values := wire.List(fields[i].Val())
		out[i].Output, out[i].Error = s.Unseal(values.Text(0)), s.Unseal(values.Text(1))
		history, err := s.history(id, buffers[i])
		if err != nil || len(history) == 0 {
			continue
		}
		var started event.Started
		if history[0].Type == event.ExecutionStarted && json.Unmarshal(history[0].Data, &started) == nil {
			out[i].Input = started.Input
		}
	}
	return out, nil
}

// Tail is the part of an execution's history after a version.
type Tail struct {
	ID      string
	After   int64
	History []event.Event
	Err     error // why it could not be read
}

// Tails reads tails in one round trip, up to limit entries of each.
func (s *Store) Tails(ctx context.Context, tenant string, tails []Tail, limit int) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	buffers := wire.NewBuffers(len(tails))
	defer wire.Return(buffers...)
	pipe := s.rdb.Pipeline()
	for i, t := range tails {
		_ = pipe.Process(ctx, historyCmd(ctx, buffers[i], s.keys.History(tenant, t.ID), t.After, limit)) // Exec returns the error
	}
	if err := firstTemporary(pipe.Exec(ctx)); err != nil {
		return Failed("read histories", err)
	}
	for i := range tails {
		tails[i].History, tails[i].Err = s.history(tails[i].ID, buffers[i])
	}
	return nil
}
