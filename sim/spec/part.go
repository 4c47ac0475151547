package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/yaml"
)

// part is an expected value with the positions of its parts. A map matches a part of the actual
// map, a list the whole list. A string ${ … } matches if the expression is true.
type part struct {
	file    string
	node    *yaml3.Node
	fields  []field
	items   []*part
	value   any // of a scalar
	program *expr.Program
}

// field is a member of a map.
type field struct {
	key *yaml3.Node
	*part
}

// partReader reads parts of one file.
type partReader struct {
	*yaml.Reader
	file string
}

// part reads an expected value.
func (r partReader) part(n *yaml3.Node) *part {
	if n.Kind == yaml3.AliasNode {
		n = n.Alias
	}
	p := &part{file: r.file, node: n}
	switch n.Kind {
	case yaml3.MappingNode:
		r.Object(n, "data", nil, func(key, value *yaml3.Node) { p.fields = append(p.fields, field{key, r.part(value)}) })
	case yaml3.SequenceNode:
		r.Each("data", func(n *yaml3.Node) { p.items = append(p.items, r.part(n)) })(n)
	default:
		p.value = r.Data(n)
		p.program = r.program(n, p.value)
	}
	return p
}

// program returns the expression in a string; nil if the string is not an expression.
func (r partReader) program(n *yaml3.Node, v any) *expr.Program {
	text, ok := v.(string)
	source, isOpen := strings.CutPrefix(strings.TrimSpace(text), "${")
	source, isClosed := strings.CutSuffix(source, "}")
	if !ok || !isOpen || !isClosed {
		return nil
	}
	p, err := expr.Compile(strings.TrimSpace(source), func(name string) bool { return name == "input" || name == "output" })
	if err != nil {
		r.Errorf(n, "%v", err)
	}
	return p
}

// isMap reports whether the part is a map, which may be empty.
func (p *part) isMap() bool { return p.node.Kind == yaml3.MappingNode }

// isList reports whether the part is a list, which may be empty.
func (p *part) isList() bool { return p.node.Kind == yaml3.SequenceNode }

// data returns the part as data.
func (p *part) data() any {
	switch {
	case p.isMap():
		out := make(map[string]any, len(p.fields))
		for _, f := range p.fields {
			out[f.key.Value] = f.data()
		}
		return out
	case p.isList():
		out := make([]any, len(p.items))
		for i, item := range p.items {
			out[i] = item.data()
		}
		return out
	default:
		return p.value
	}
}

// comparison compares parts with actual values.
type comparison struct {
	vars    map[string]any // variables of expressions
	problem bool           // the value is an error, so short names of types match
	found   []mismatch
}

// mismatch is a value that differs from the expected one.
type mismatch struct {
	path  string // such as .order.items[2]
	part  *part
	value any  // the actual value
	none  bool // there is no actual value
	why   string
	above *part // the map that should have the member, if none
	whole any   // the actual value of that map
}

func (c *comparison) compare(path string, p *part, got any) {
	switch {
	case p.program != nil:
		c.test(path, p, got)
	case p.isMap():
		c.compareMap(path, p, got)
	case p.isList():
		c.compareList(path, p, got)
	case c.problem && path == ".type" && event.ShortType(canonical.Text(p.value)) == event.ShortType(canonical.Text(got)):
	case !canonical.Equal(p.value, got):
		c.add(mismatch{path: path, part: p, value: got})
	}
}

func (c *comparison) add(m mismatch) { c.found = append(c.found, m) }

// test evaluates an expression.
func (c *comparison) test(path string, p *part, got any) {
	ok, err := p.program.Test(&expr.Scope{Dot: got, Var: func(name string) (any, error) { return c.vars[name], nil }})
	switch {
	case err != nil:
		c.add(mismatch{path: path, part: p, value: got, why: err.Error()})
	case !ok:
		c.add(mismatch{path: path, part: p, value: got, why: "the expression is not true"})
	}
}

func (c *comparison) compareMap(path string, p *part, got any) {
	object, ok := got.(map[string]any)
	if !ok {
		c.add(mismatch{path: path, part: p, value: got})
		return
	}
	for _, f := range p.fields {
		inner := path + canonical.Member(f.key.Value)
		if value, has := object[f.key.Value]; has {
			c.compare(inner, f.part, value)
			continue
		}
		c.add(mismatch{path: inner, part: f.part, none: true, above: p, whole: got})
	}
}

func (c *comparison) compareList(path string, p *part, got any) {
	list, ok := got.([]any)
	if !ok {
		c.add(mismatch{path: path, part: p, value: got})
		return
	}
	if len(list) != len(p.items) {
		why := fmt.Sprintf("%s, want %d", history.Count(len(list), "item"), len(p.items))
		c.add(mismatch{path: path, part: p, value: got, why: why})
		return
	}
	for i, item := range p.items {
		c.compare(path+"["+strconv.Itoa(i)+"]", item, list[i])
	}
}

// project returns the part of an actual value that the test file has expectations about.
func (p *part) project(got any) any {
	switch v := got.(type) {
	case map[string]any:
		if !p.isMap() || len(p.fields) == 0 {
			return got
		}
		out := map[string]any{}
		for _, f := range p.fields {
			if value, has := v[f.key.Value]; has {
				out[f.key.Value] = f.project(value)
			}
		}
		return out
	case []any:
		if !p.isList() || len(v) != len(p.items) {
			return got
		}
		out := slices.Clone(v)
		for i, item := range p.items {
			out[i] = item.project(v[i])
		}
		return out
	default:
		return got
	}
}
