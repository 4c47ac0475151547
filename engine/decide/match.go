package decide

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// match returns the index of the filter that accepts an event, or -1. With mode "all" it skips
// the filters in taken, which have already accepted an event. It also returns the correlation
// keys that the event sets.
func (ev *evaluator) match(n *Node, to *dsl.Consumption, taken []int, envelope map[string]any) (int, map[string]Data, error) {
	if len(to.Filters) == 0 && to.Mode == "any" {
		return 0, nil, nil
	}
	for i, f := range to.Filters {
		if to.Mode == "all" && slices.Contains(taken, i) {
			continue
		}
		ok, err := ev.matchesFilter(n, f, envelope)
		if err != nil {
			return -1, nil, err
		}
		if !ok {
			continue
		}
		keys, ok, err := ev.correlates(n, f, envelope)
		if err != nil {
			return -1, nil, err
		}
		if ok {
			return i, keys, nil
		}
	}
	return -1, nil, nil
}

func (ev *evaluator) matchesFilter(n *Node, f dsl.EventFilter, envelope map[string]any) (bool, error) {
	for _, want := range f.With {
		got := envelope[want.Key]
		var ok bool
		var err error
		if want.Key == "data" {
			ok, err = ev.matchesData(n, want.Value, got)
		} else {
			ok, err = ev.matchesAttribute(n, want.Value, got)
		}
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// matchesData matches the data of an event. Literal data must be contained in it. An
// expression is evaluated on it, and yields either a condition or the expected data.
func (ev *evaluator) matchesData(n *Node, want *expr.Value, data any) (bool, error) {
	if literal, ok := want.Constant(); ok {
		return contains(data, literal), nil
	}
	v, err := want.Eval(ev.scope(n, data))
	if err != nil {
		return false, err
	}
	if holds, ok := v.(bool); ok {
		return holds, nil
	}
	return canonical.Equal(v, data), nil
}

// matchesAttribute matches an attribute: it must be equal to the value, or match it as an
// anchored regular expression.
func (ev *evaluator) matchesAttribute(n *Node, want *expr.Value, got any) (bool, error) {
	v, err := want.Eval(ev.scope(n, n.Input.V))
	if err != nil {
		return false, err
	}
	if canonical.Equal(v, got) {
		return true, nil
	}
	pattern, ok := v.(string)
	text, isText := got.(string)
	if !ok || !isText || plainType(pattern) {
		return false, nil
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	return err == nil && re.MatchString(text), nil
}

// contains reports whether whole has everything that part has.
func contains(whole, part any) bool {
	want, ok := part.(map[string]any)
	if !ok {
		return canonical.Equal(whole, part)
	}
	have, ok := whole.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range want {
		got, ok := have[name]
		if !ok || !contains(got, value) {
			return false
		}
	}
	return true
}

// correlates matches the correlation keys of an event with those of the execution. A key
// without an expected value is set by the first event that has one.
func (ev *evaluator) correlates(n *Node, f dsl.EventFilter, envelope map[string]any) (map[string]Data, bool, error) {
	var keys map[string]Data
	for _, c := range f.Correlate {
		got, want, known, err := ev.correlation(n, c, envelope)
		if err != nil || got == nil {
			return nil, false, err
		}
		switch {
		case !known:
			if keys == nil {
				keys = map[string]Data{}
			}
			keys[c.Key] = Data{got}
		case !canonical.Equal(want.V, got):
			return nil, false, nil
		}
	}
	return keys, true, nil
}

// correlation returns the value of a correlation key in an event, and the one that it must have if
// that is known.
func (ev *evaluator) correlation(n *Node, c dsl.Correlation, envelope map[string]any) (got any, want Data, known bool, err error) {
	got, err = c.From.Eval(ev.scope(n, any(envelope)))
	if err != nil || got == nil {
		return nil, want, false, err
	}
	if c.Expect == nil {
		want, known = ev.Keys[c.Key]
		return got, want, known, nil
	}
	want.V, err = c.Expect.Eval(ev.scope(n, n.Input.V))
	return got, want, true, err
}

// ListenMatch reports whether an active listen task accepts an external event, and if not, why.
type ListenMatch struct {
	Task  *dsl.Task
	Takes bool   // the task accepts the event
	Why   string // why not, such as "data.order is 7, want 8"; "" if no filter is for events of this type
}

// ListenMatches returns, for each active listen task, outermost first, whether it would now
// accept an external event. The state does not change.
func (s *State) ListenMatches(env *Env, e event.Event) []ListenMatch {
	var out []ListenMatch
	ev := &evaluator{s, env}
	envelope := envelope(e)
	for _, n := range s.Open() {
		if n.Listen == nil || n.Listen.Stopped {
			continue
		}
		h := ListenMatch{Task: n.task}
		to := n.task.Listen.To
		h.Takes, h.Why = ev.mismatchReasons(n, &to, n.Listen.Matched, envelope)
		if until := to.UntilEvent; until != nil && !h.Takes {
			takes, why := ev.mismatchReasons(n, until, n.Listen.Stop, envelope)
			if h.Takes = takes; h.Why == "" {
				h.Why = why
			}
		}
		out = append(out, h)
	}
	return out
}

// mismatchReasons reports whether a listen task accepts an event, and if not, why none of its
// filters does.
func (ev *evaluator) mismatchReasons(n *Node, to *dsl.Consumption, taken []int, envelope map[string]any) (takes bool, why string) {
	i, _, err := ev.match(n, to, taken, envelope)
	if err != nil {
		return false, problemOf(err).Error()
	}
	if i >= 0 {
		return true, ""
	}
	var reasons []string
	for i, f := range to.Filters {
		typ, err := ev.typeOf(n, f)
		switch {
		case err != nil || typ != "*" && typ != envelope["type"]:
			continue
		case to.Mode == "all" && slices.Contains(taken, i):
			reasons = append(reasons, "it already has an event of this type")
		default:
			reasons = append(reasons, ev.mismatch(n, f, envelope))
		}
	}
	return false, strings.Join(slices.Compact(reasons), "; ")
}

// mismatch describes the part of an event that a filter does not accept.
func (ev *evaluator) mismatch(n *Node, f dsl.EventFilter, envelope map[string]any) string {
	for _, want := range f.With {
		got := envelope[want.Key]
		if want.Key == "data" {
			if ok, err := ev.matchesData(n, want.Value, got); err != nil || !ok {
				return ev.dataMismatch(n, want.Value, got)
			}
			continue
		}
		if ok, err := ev.matchesAttribute(n, want.Value, got); err != nil || !ok {
			v, _ := want.Value.Eval(ev.scope(n, n.Input.V)) // matchesAttribute has reported the error, if any
			return differs(want.Key, got, v)
		}
	}
	for _, c := range f.Correlate {
		got, want, known, err := ev.correlation(n, c, envelope)
		switch {
		case err != nil:
			return problemOf(err).Error()
		case got == nil:
			why := fmt.Sprintf("it has no %s to correlate by", c.Key)
			if data, ok := envelope["data"].(map[string]any); ok && data[c.Key] != nil {
				why += "; from is an expression over the event, whose data is .data"
			}
			return why
		case known && !canonical.Equal(want.V, got):
			return differs("correlation key "+c.Key, got, want.V)
		}
	}
	return ""
}

func (ev *evaluator) dataMismatch(n *Node, want *expr.Value, data any) string {
	if literal, ok := want.Constant(); ok {
		return partMismatch("data", data, literal)
	}
	v, err := want.Eval(ev.scope(n, data))
	switch v := v.(type) {
	case nil:
		if err != nil {
			return problemOf(err).Error()
		}
	case bool:
		if p := want.Program(); p != nil {
			return fmt.Sprintf("%s is false where data is %s", p.Source(), excerptJSON(data))
		}
	default:
		return partMismatch("data", data, v)
	}
	return differs("data", data, v)
}

// partMismatch describes the first value of part that whole lacks.
func partMismatch(path string, whole, part any) string {
	want, ok := part.(map[string]any)
	have, is := whole.(map[string]any)
	if !ok || !is {
		return differs(path, whole, part)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		got, ok := have[name]
		switch {
		case !ok:
			return fmt.Sprintf("%s.%s is missing, want %s", path, name, excerptJSON(want[name]))
		case !contains(got, want[name]):
			return partMismatch(path+"."+name, got, want[name])
		}
	}
	return differs(path, whole, part)
}

func differs(what string, got, want any) string {
	if got == nil {
		return fmt.Sprintf("%s is missing, want %s", what, excerptJSON(want))
	}
	return fmt.Sprintf("%s is %s, want %s", what, excerptJSON(got), excerptJSON(want))
}

// excerptJSON returns a value's JSON for a message, truncated.
func excerptJSON(v any) string { return excerpt.Of(string(canonical.Encode(v)), 80) }

// ListensFor returns the event types that a listen task has filters for, if they are constants
// of the document.
func ListensFor(t *dsl.Task) (types []string) {
	for _, f := range filtersOf(t) {
		if typ, ok := constantType(f); ok {
			types = append(types, typ)
		}
	}
	return types
}

// ListenTypes returns the constant event types that the tasks of the document listen for,
// sorted; "*" stands for any type. complete is false if the document computes some types.
func (env *Env) ListenTypes() (types []string, complete bool) {
	complete = true
	for _, t := range env.def.Tasks() {
		if t.Kind != dsl.Listen {
			continue
		}
		if len(t.Listen.To.Filters) == 0 {
			types = append(types, "*")
		}
		for _, f := range filtersOf(t) {
			typ, constant := constantType(f)
			complete = complete && (constant || typeValue(f) == nil)
			if !constant || !plainType(typ) {
				typ = "*"
			}
			types = append(types, typ)
		}
	}
	slices.Sort(types)
	return slices.Compact(types), complete
}

// filtersOf returns all filters of a listen task, those of until last.
func filtersOf(t *dsl.Task) []dsl.EventFilter {
	filters := t.Listen.To.Filters
	if until := t.Listen.To.UntilEvent; until != nil {
		filters = slices.Concat(filters, until.Filters)
	}
	return filters
}

// MayListenFor reports whether a listen task may accept events of a type: a type that is
// an expression or a regular expression counts as a match.
func MayListenFor(t *dsl.Task, typ string) bool {
	if t.Listen == nil {
		return false
	}
	filters := filtersOf(t)
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f dsl.EventFilter) bool {
		text, ok := constantType(f)
		return !ok || text == typ || !plainType(text)
	})
}
