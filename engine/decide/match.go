package decide

import (
	"regexp"
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// listener subscribes tasks to events, and finds the events that they listen for.
type listener struct{ transition }

// match returns the index of the filter that accepts an event, -1 if none does. With mode
// "all" it skips the filters in taken, which have already accepted an event. The keys are
// the correlation keys that the event sets.
func (l *listener) match(n *Node, to *dsl.Consumption, taken []int, envelope map[string]any) (int, map[string]Data, error) {
	if len(to.Filters) == 0 && to.Mode == "any" {
		return 0, nil, nil
	}
	for i, f := range to.Filters {
		if to.Mode == "all" && slices.Contains(taken, i) {
			continue
		}
		ok, err := l.matchesFilter(n, f, envelope)
		if err != nil {
			return -1, nil, err
		}
		if !ok {
			continue
		}
		keys, ok, err := l.correlates(n, f, envelope)
		if err != nil {
			return -1, nil, err
		}
		if ok {
			return i, keys, nil
		}
	}
	return -1, nil, nil
}

func (l *listener) matchesFilter(n *Node, f dsl.EventFilter, envelope map[string]any) (bool, error) {
	for _, want := range f.With {
		got := envelope[want.Key]
		var ok bool
		var err error
		if want.Key == "data" {
			ok, err = l.matchesData(n, want.Value, got)
		} else {
			ok, err = l.matchesAttribute(n, want.Value, got)
		}
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// matchesData matches the data of an event. Literal data must be contained in it. An
// expression is evaluated on it, and yields either a condition or the expected data.
func (l *listener) matchesData(n *Node, want *expr.Value, data any) (bool, error) {
	if literal, ok := want.Constant(); ok {
		return contains(data, literal), nil
	}
	v, err := want.Eval(l.scope(n, data))
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
func (l *listener) matchesAttribute(n *Node, want *expr.Value, got any) (bool, error) {
	v, err := want.Eval(l.scope(n, n.Input.V))
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
func (l *listener) correlates(n *Node, f dsl.EventFilter, envelope map[string]any) (map[string]Data, bool, error) {
	var keys map[string]Data
	for _, c := range f.Correlate {
		got, err := c.From.Eval(l.scope(n, any(envelope)))
		if err != nil {
			return nil, false, err
		}
		if got == nil {
			return nil, false, nil
		}
		want, known := l.Keys[c.Key]
		if c.Expect != nil {
			v, err := c.Expect.Eval(l.scope(n, n.Input.V))
			if err != nil {
				return nil, false, err
			}
			want, known = Data{v}, true
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
