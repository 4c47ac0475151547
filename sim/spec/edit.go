package spec

import (
	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// edit is a change of a test file, or of a file that it names, to expect the actual result.
type edit struct {
	op    operation
	file  string
	node  *yaml3.Node // the value to replace or to remove, or the map for a new member
	at    *yaml3.Node // the member's key, for swap and remove
	key   string
	value any
}

type operation int

const (
	replace operation = iota // replaces a value
	insert                   // adds a member, as the first of a map
	swap                     // replaces a member
	remove                   // removes a member
)

func (chk *checker) at(n *yaml3.Node) Place { return Place{chk.suite.File, n.Line, n.Column} }

func (chk *checker) replace(n *yaml3.Node, value any) edit {
	return edit{op: replace, file: chk.suite.File, node: n, value: value}
}

// edit returns the change that makes the test file expect the actual value.
func (m mismatch) edit() edit {
	if m.none {
		return edit{op: replace, file: m.above.file, node: m.above.node, value: m.above.project(m.whole)}
	}
	return edit{op: replace, file: m.part.file, node: m.part.node, value: m.part.project(m.value)}
}

// endingEdits makes expect match how the run ended: its status, and output or error.
func (chk *checker) endingEdits() []edit {
	e, got := chk.Expect, chk.outcome.status()
	if e.node == nil {
		return nil // Update writes all of it
	}
	key, value := "status", any(string(got))
	var edits []edit
	if e.status != nil {
		edits = append(edits, chk.replace(e.status, value))
		key = ""
	}
	wrong := "output"
	switch got {
	case decide.Completed:
		wrong, key, value = "error", "output", canonical.DecodeOrText(chk.outcome.Output)
	case decide.Faulted:
		key, value = "error", chk.shortError()
	default:
		if e.problem != nil {
			wrong = "error"
		}
	}
	return append(edits, chk.inPlaceOf(wrong, key, value)...)
}

// inPlaceOf replaces one member with another, or adds it. An empty key means none.
func (chk *checker) inPlaceOf(wrong, key string, value any) []edit {
	change := edit{file: chk.suite.File, key: key, value: value}
	at, old := memberOf(chk.Expect.node, wrong)
	switch {
	case old == nil && chk.Expect.status != nil:
		return nil
	case old == nil && chk.outcome.status() == decide.Completed:
		return nil
	case old == nil:
		change.op, change.node = insert, chk.Expect.node
	case key == "" || member(chk.Expect.node, key) != nil:
		change.op, change.at, change.node = remove, at, old
	default:
		change.op, change.at, change.node = swap, at, old
	}
	return []edit{change}
}

// shortError returns the error of the run in its short form.
func (chk *checker) shortError() any {
	p := chk.outcome.Error
	if p == nil {
		return nil
	}
	return map[string]any{"type": event.ShortType(p.Type), "status": p.Status}
}

// memberOf returns the key and value of a member of a map.
func memberOf(n *yaml3.Node, key string) (at, value *yaml3.Node) {
	for i := 0; n.Kind == yaml3.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// member returns the value of a member of a map; nil if there is none.
func member(n *yaml3.Node, key string) *yaml3.Node {
	_, value := memberOf(n, key)
	return value
}

func list(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

// actualExpectations returns expectations that the run meets, for a case that has none.
func (v *Verdict) actualExpectations() map[string]any {
	o := v.Outcome
	out := map[string]any{"status": string(o.status())}
	switch {
	case o.status() == decide.Completed:
		out["output"] = canonical.DecodeOrText(o.Output)
	case o.Error != nil:
		out["error"] = (&checker{Case: v.Case, outcome: o}).shortError()
	}
	return out
}
