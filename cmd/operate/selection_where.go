package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/store"
)

// narrow returns the executions that meet the conditions of --label, --stuck and --where, if given.
func (s *selection) narrow(ctx context.Context, r *cli.Remote, tenant string, some []store.Execution) (out []store.Execution, err error) {
	if len(s.wanted) > 0 {
		for _, x := range some {
			labels, err := allLabels(ctx, r, x)
			if err != nil {
				return nil, err
			}
			if labels.Has(s.wanted) {
				out = append(out, x)
			}
		}
		some = out
	}
	if s.stuck {
		found, err := r.Examiner.Examine(ctx, tenant, some)
		if err != nil {
			return nil, err
		}
		some = slices.DeleteFunc(some, func(x store.Execution) bool { return len(found[x.ID].Stuck) == 0 })
	}
	if s.condition == nil {
		return some, nil
	}
	return s.condition.narrow(ctx, r, tenant, some)
}

// allLabels returns the labels of an execution and the tags of its document.
func allLabels(ctx context.Context, r *cli.Remote, x store.Execution) (event.Labels, error) {
	if x.Definition == "" {
		return x.Labels, nil
	}
	env, err := r.Definitions.Hash(ctx, x.Tenant, x.Workflow, x.Definition)
	switch {
	case store.Temporary(err):
		return nil, err
	case err != nil:
		return x.Labels, nil //nolint:nilerr // its document is gone, or written by another version
	}
	labels := event.Labels{}
	maps.Copy(labels, env.Definition().Document.Tags)
	maps.Copy(labels, x.Labels)
	return labels, nil
}

// condition is the expression of --where, and the results of its evaluations so far.
type condition struct {
	source  string
	program *expr.Program

	failed  int   // executions for which it could not be evaluated
	failure error // why, for the first one
	members memberSearch
}

func newCondition(source string) (*condition, error) {
	program, err := expr.Compile(source, func(string) bool { return false })
	if err != nil {
		return nil, cli.Misusef("--where %s: %w", cli.Quote(source), err)
	}
	for _, d := range append(program.Doubts(), program.ConditionDoubts()...) {
		if d.Rule == expr.RuleAssignment { // it would select all
			return nil, cli.Misusef("--where %s: %s; %s", cli.Quote(source), d.Message, d.Suggestion)
		}
	}
	return &condition{source: source, program: program, members: memberSearch{unseen: program.Members()}}, nil
}

// narrow returns the executions that meet the condition.
func (c *condition) narrow(ctx context.Context, r *cli.Remote, tenant string, some []store.Execution) (out []store.Execution, err error) {
	names := func(member string) bool { return strings.Contains(c.source, member) }
	var data []store.Data
	if names("input") || names("output") || names("error") {
		if data, err = r.Store.DataOf(ctx, tenant, actions.IDs(some)...); err != nil {
			return nil, err
		}
	}
	for i, x := range some {
		object := map[string]any{
			"id": x.ID, "tenant": x.Tenant, "workflow": x.Workflow, "definition": x.Definition, "status": x.Status,
			"created": x.CreatedAt.Format(time.RFC3339Nano), "ended": nil, "events": int(x.Version), "parent": x.Parent,
		}
		if !x.EndedAt.IsZero() {
			object["ended"] = x.EndedAt.Format(time.RFC3339Nano)
		}
		labels, err := allLabels(ctx, r, x)
		if err != nil {
			return nil, err
		}
		texts := make(map[string]any, len(labels))
		for name, value := range labels {
			texts[name] = value
		}
		object["labels"] = texts
		if data != nil {
			object["input"], object["output"], object["error"] = decoded(data[i].Input), decoded(data[i].Output), decoded(data[i].Error)
		}
		if names("context") {
			if object["context"], err = contextOf(ctx, r, x); store.Temporary(err) {
				return nil, err
			}
		}
		c.members.examine(x, object)
		var met bool
		if err == nil {
			met, err = c.program.Test(&expr.Scope{Dot: object, Now: x.CreatedAt})
		}
		if err != nil {
			c.failed++
			c.failure = cmp.Or(c.failure, fmt.Errorf("execution %s: %w", x.ID, err))
		}
		if met {
			out = append(out, x)
		}
	}
	return out, nil
}

// decoded returns JSON as data for expressions, nil if there is none.
func decoded(text json.RawMessage) any {
	v, err := canonical.Decode(text)
	if err != nil {
		return nil
	}
	return v
}

// contextOf returns the $context of an execution.
func contextOf(ctx context.Context, r *cli.Remote, x store.Execution) (any, error) {
	if x.Version == 0 || x.Definition == "" {
		return nil, nil
	}
	whole, err := r.Store.Execution(ctx, x.Tenant, x.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state, err := examine.State(ctx, r.Store, r.Definitions, whole)
	if err != nil {
		return nil, fmt.Errorf("compute its context: %w", err)
	}
	return state.Context.V, nil
}

// hint reports for how many executions the condition could not be evaluated, and why it may have
// selected none. Without a condition it does nothing.
func (c *condition) hint(ctx context.Context, sh *cli.Shell, r *cli.Remote, selected int) error {
	if c == nil {
		return nil
	}
	if c.failed > 0 {
		sh.Hint("--where failed for %d, which are not selected; first: %s", c.failed, cli.OneLine(c.failure.Error()))
	}
	m := &c.members
	if selected > 0 || m.examined == 0 || sh.Quiet {
		return nil
	}
	sh.Hint("--where is true for none of them (%s examined)", history.Count(m.examined, "execution"))
	if len(m.unseen) == 0 {
		return nil
	}
	data, err := r.Store.DataOf(ctx, m.tenant, m.sample...)
	if err != nil {
		return err
	}
	for _, d := range data {
		m.visit("", map[string]any{"input": decoded(d.Input), "output": decoded(d.Output), "error": decoded(d.Error)}, func(string) {})
	}
	for _, name := range m.unseen {
		meant := ""
		if path := m.paths[spelling.Word(name, slices.Sorted(maps.Keys(m.paths)))]; path != "" {
			meant = "; did you mean " + path + "?"
		}
		sh.Hint("no examined execution has a member .%s%s", name, cli.Printable(meant))
	}
	return nil
}

// memberSearch finds the members that a condition reads although no execution has them.
type memberSearch struct {
	examined int
	unseen   []string          // members of that name have not been seen in any object or list
	paths    map[string]string // of members of a few executions, by their names

	tenant string // of the sample
	sample []string
}

// Bounds of what is kept for suggestions.
const (
	sampledExecutions = 10
	sampledMembers    = 1000
)

// examine searches the condition for members that it reads from an execution.
func (m *memberSearch) examine(x store.Execution, object map[string]any) {
	m.examined++
	if len(m.unseen) == 0 {
		return
	}
	if len(m.sample) < sampledExecutions && cmp.Or(m.tenant, x.Tenant) == x.Tenant {
		m.tenant, m.sample = x.Tenant, append(m.sample, x.ID)
	}
	m.visit("", object, func(name string) {
		m.unseen = slices.DeleteFunc(m.unseen, func(wanted string) bool { return wanted == name })
	})
}

// visit passes the names of all members below a value to seen, and records their paths.
func (m *memberSearch) visit(path string, v any, seen func(name string)) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			m.visit(path+"[]", element, seen)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			seen(name)
			below := path + canonical.Member(name)
			if m.paths[name] == "" && len(m.paths) < sampledMembers {
				if m.paths == nil {
					m.paths = map[string]string{}
				}
				m.paths[name] = below
			}
			m.visit(below, v[name], seen)
		}
	}
}
