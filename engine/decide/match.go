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
		mismatch, keys, err := ev.mismatch(n, f, envelope)
		if err != nil {
			return -1, nil, err
		}
		if mismatch == nil {
			return i, keys, nil
		}
	}
	return -1, nil, nil
}

// mismatch returns nil if a filter accepts an event, and the correlation keys that the event then sets:
// a key without an expected value is set by the first event that has one. Otherwise it returns a function
// that describes the part of the event that the filter does not accept.
func (ev *evaluator) mismatch(n *Node, f dsl.EventFilter, envelope map[string]any) (why func() string, keys map[string]Data, err error) {
	for _, want := range f.With {
		if want.Key == "data" {
			why, err = ev.dataMismatch(n, want.Value, envelope["data"])
		} else {
			why, err = ev.attributeMismatch(n, want, envelope[want.Key])
		}
		if err != nil || why != nil {
			return why, nil, err
		}
	}
	for _, c := range f.Correlate {
		got, want, known, err := ev.correlation(n, c, envelope)
		switch {
		case err != nil:
			return nil, nil, err
		case got == nil:
			return func() string { return uncorrelated(c.Key, envelope["data"]) }, nil, nil
		case !known:
			if keys == nil {
				keys = map[string]Data{}
			}
			keys[c.Key] = Data{got}
		case !canonical.Equal(want.V, got):
			return func() string { return differs("correlation key "+c.Key, got, want.V) }, nil, nil
		}
	}
	return nil, keys, nil
}

// uncorrelated describes an event without a value for a correlation key.
func uncorrelated(key string, data any) string {
	why := fmt.Sprintf("it has no %s to correlate by", key)
	if members, ok := data.(map[string]any); ok && members[key] != nil {
		why += "; from is an expression over the event, whose data is .data"
	}
	return why
}

// dataMismatch matches the data of an event. Literal data must be contained in it. An
// expression is evaluated on it, and yields either a condition or the expected data.
func (ev *evaluator) dataMismatch(n *Node, want *expr.Value, data any) (why func() string, err error) {
	if literal, ok := want.Constant(); ok {
		if contains(data, literal) {
			return nil, nil
		}
		return func() string { return partMismatch("data", data, literal) }, nil
	}
	v, err := want.Eval(ev.scope(n, data))
	holds, condition := v.(bool)
	switch {
	case err != nil || holds || !condition && canonical.Equal(v, data):
		return nil, err
	case condition:
		return func() string {
			return fmt.Sprintf("%s is false where data is %s", want.Program().Source(), excerptJSON(data))
		}, nil
	default:
		return func() string { return partMismatch("data", data, v) }, nil
	}
}

// attributeMismatch matches an attribute: it must be equal to the value, or match it as an
// anchored regular expression.
func (ev *evaluator) attributeMismatch(n *Node, want expr.Field, got any) (why func() string, err error) {
	v, err := want.Value.Eval(ev.scope(n, n.Input.V))
	if err != nil || canonical.Equal(v, got) {
		return nil, err
	}
	pattern, ok := v.(string)
	text, isText := got.(string)
	if ok && isText && !plainType(pattern) {
		if re, err := regexp.Compile("^(?:" + pattern + ")$"); err == nil && re.MatchString(text) {
			return nil, nil
		}
	}
	return func() string { return differs(want.Key, got, v) }, nil
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
			if mismatch, _, err := ev.mismatch(n, f, envelope); err == nil { // match has found no error
				reasons = append(reasons, mismatch())
			}
		}
	}
	return false, strings.Join(slices.Compact(reasons), "; ")
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
