package actions

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/yaml"
)

// Migrator moves running executions to another registered version of their workflow. It
// refuses an execution whose history the new document would not have produced.
type Migrator struct {
	Store       *store.Store
	Definitions *definitions.Cache
	By          string // the operator, recorded in the history
	Reason      string // recorded in the history
	From        string // only executions of this version; "": any
	Dry         bool   // change nothing
}

// Migration is the result for one execution.
type Migration struct {
	ID          string   `json:"id"`
	Workflow    string   `json:"workflow"`
	FromVersion string   `json:"from,omitempty"`
	ToVersion   string   `json:"to"`
	Result      string   `json:"result"`           // one of the constants below
	Reason      string   `json:"reason,omitempty"` // why it cannot be migrated
	Event       int64    `json:"event,omitempty"`  // the first event of the history that diverges
	Task        string   `json:"task,omitempty"`
	Notes       []string `json:"notes,omitempty"`

	At *yaml.Pos `json:"-"` // of the task in the new document
}

// The results of a Migration.
const (
	Migrated  = "migrated"
	MayBe     = "may be migrated"
	CannotBe  = "cannot be migrated"
	Unchanged = "runs it already"
	Skipped   = "skipped" // it runs another version than From
)

// attempts is the number of times a migration is tried while the execution keeps advancing.
const attempts = 50

// Migrate moves an execution to a version of its workflow. It returns an error if Redis
// fails or if the version or the execution is unknown; every other outcome is in the
// Migration.
func (m *Migrator) Migrate(ctx context.Context, x store.Execution, version string) (out Migration, err error) {
	out = Migration{ID: x.ID, Workflow: x.Workflow, ToVersion: version, Result: CannotBe}
	env, hash, err := m.Definitions.Version(ctx, x.Tenant, x.Workflow, version)
	if err != nil {
		return out, err
	}
	out.ToVersion = env.Definition().Document.Version
	// The history may grow meanwhile. Later attempts reuse the computed states so that
	// little time passes between the last read of the execution and the commit.
	from, to := side{}, side{env: env, hash: hash, state: decide.New()}
	for range attempts {
		now, err := m.Store.NowOf(ctx, x.Tenant)
		if err != nil {
			return out, err
		}
		if x, err = m.Store.Execution(ctx, x.Tenant, x.ID); err != nil {
			return out, err
		}
		if ready, err := m.before(ctx, x, hash, &from, &out); !ready || err != nil {
			return out, err
		}
		err = m.Store.EachPage(ctx, x, to.read, func(events []event.Event) error {
			if known := from.read - to.read; known < int64(len(events)) {
				if err := from.replay(events[max(known, 0):]); err != nil {
					return err
				}
			}
			return to.replay(events)
		})
		if err == nil {
			var done bool
			if done, err = m.move(ctx, x, now, from, to, &out); done {
				return out, nil
			}
		}
		if err != nil {
			return out, out.misfit(err, to)
		}
	}
	out.Reason = fmt.Sprintf("it advanced %d times meanwhile: suspend it first", attempts)
	return out, nil
}

// side is the state of an execution under one of the two documents.
type side struct {
	env   *decide.Env
	hash  string
	state *decide.State
	read  int64 // entries of the history that the state includes
}

func (s *side) replay(events []event.Event) error {
	s.read += int64(len(events))
	return s.state.Replay(s.env, events)
}

// before computes the state under the current document, unless an earlier attempt did. It
// reports false if the execution cannot or need not be migrated.
func (m *Migrator) before(ctx context.Context, x store.Execution, hash string, from *side, out *Migration) (ready bool, err error) {
	switch {
	case m.From != "" && (x.Status == string(decide.Pending) || examine.Ended(x.Status)):
		out.Result = Skipped
		return false, nil
	case x.Status == string(decide.Pending) || x.Version == 0:
		out.Reason = "it has not begun and will run the version that it was started with"
		return false, nil
	case examine.Ended(x.Status):
		out.Reason = "it has ended: it is " + x.Status
		if x.Status == string(decide.Faulted) {
			out.Reason += fmt.Sprintf("; 'flunq reset %s --to TASK --version %s' starts one that continues it", x.ID, out.ToVersion)
		}
		return false, nil
	case from.hash == x.Definition && from.state != nil:
		return true, nil
	}
	*from = side{hash: x.Definition, read: x.Version}
	if from.env, err = m.Definitions.Hash(ctx, x.Tenant, x.Workflow, x.Definition); err != nil {
		return false, err
	}
	out.FromVersion = from.env.Definition().Document.Version
	switch {
	case m.From != "" && m.From != out.FromVersion:
		out.Result = Skipped
		return false, nil
	case x.Definition == hash:
		out.Result = Unchanged
		return false, nil
	}
	from.state, err = examine.State(ctx, m.Store, m.Definitions, x)
	if _, diverges := errors.AsType[*decide.Divergence](err); diverges {
		return false, fmt.Errorf("rebuild execution %s with its own document: %w; if the document uses secrets, give --secrets", x.ID, err)
	}
	return err == nil, err
}

// move writes the migration. It reports false if the execution has advanced meanwhile. With
// Dry it writes nothing.
func (m *Migrator) move(ctx context.Context, x store.Execution, now time.Time, from, to side, out *Migration) (done bool, err error) {
	e := event.Event{
		ID: x.ID + "/migrate/" + strings.ToLower(rand.Text()), Source: timers.OperatorSource, Type: event.ExecutionMigrated, Time: now,
		Tenant: x.Tenant, Workflow: x.Workflow, Execution: x.ID,
		Data: event.Encode(event.Migrated{
			Definition: to.hash, Version: out.ToVersion, From: from.hash, FromVersion: out.FromVersion, Reason: m.Reason, By: m.By,
		}),
	}
	var d decide.Decision
	next, err := to.state.Migrate(to.env, e, &d)
	if err != nil {
		return false, err
	}
	out.Notes = changes(from.state, next)
	if m.Dry {
		out.Result = MayBe
		return true, nil
	}
	snapshot, err := next.Snapshot()
	if err != nil {
		return false, err
	}
	before, after := from.state.Needs(from.env).Listen, next.Needs(to.env).Listen
	without := func(types, others []string) []string {
		return slices.DeleteFunc(slices.Clone(types), func(t string) bool { return slices.Contains(others, t) })
	}
	outcome, err := m.Store.Commit(ctx, store.Commit{
		Tenant: x.Tenant, Execution: x.ID, Version: x.Version, Workflow: x.Workflow, Migrated: to.hash,
		History: d.History, Publish: []event.Event{e},
		Listen: without(after, before), Unlisten: without(before, after),
		Status: string(next.Status), Snapshot: snapshot, Now: now, Started: x.CreatedAt,
	})
	if err != nil || outcome != store.Committed {
		return false, err
	}
	out.Result = Migrated
	return true, nil
}

// misfit records in out why the history diverges from the new document. It returns all other errors.
func (m *Migration) misfit(err error, to side) error {
	if store.Temporary(err) || errors.Is(err, store.ErrNotFound) {
		return err
	}
	div, diverges := errors.AsType[*decide.Divergence](err)
	if !diverges {
		m.Reason = err.Error()
		return nil
	}
	m.Event, m.Task = div.Version, cmp.Or(div.Want.Task, div.Got.Task)
	happened := "nothing yet"
	if div.Got.Type != "" {
		happened = history.Describe(div.Got)
	}
	decides := "nothing: the event has no effect there"
	if div.Want.Type != "" {
		decides = history.Describe(div.Want)
	}
	m.Reason = fmt.Sprintf("event %d of its history is: %s; with the new document it would be: %s", div.Version, happened, decides)
	if task := to.env.Definition().Task(event.ParseRun(m.Task).Ref); task != nil {
		m.At = &task.Pos
	}
	if len(to.env.Definition().Use.Secrets) > 0 {
		m.Notes = append(m.Notes, "the document uses secrets: if its decisions depend on them, give --secrets")
	}
	return nil
}

// changes lists the data that differ under the new document.
func changes(before, after *decide.State) (notes []string) {
	note := func(what string, was, is any) {
		if a, b := string(canonical.Encode(was)), string(canonical.Encode(is)); a != b {
			notes = append(notes, fmt.Sprintf("%s was %s and is %s", what, short(a), short(b)))
		}
	}
	note("$context", before.Context.V, after.Context.V)
	tasks := map[string]*decide.Node{}
	for _, n := range before.Open() {
		tasks[n.Run.String()] = n
	}
	for _, n := range after.Open() {
		if was := tasks[n.Run.String()]; was != nil {
			note("the input of "+n.Run.String(), was.Input.V, n.Input.V)
		}
	}
	return notes
}

// short shortens text for a note.
func short(text string) string { return excerpt.Of(text, 120) }
