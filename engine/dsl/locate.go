package dsl

import (
	"bytes"
	"strconv"
	"strings"
)

// Locate is the place that an error at run time speaks of: that of the expression which
// its detail names, if it stands below ref, else that of what ref points to.
func (d *Definition) Locate(ref, detail string) (at Pos, ok bool) {
	source := bytes.TrimPrefix(d.Source, []byte("\ufeff"))
	p := &parser{notes: &notes{said: map[Mistake]bool{}}, source: source}
	n := read(p.notes, source)
	for segment := range strings.SplitSeq(strings.TrimPrefix(ref, "/"), "/") {
		at, n = n.step(strings.NewReplacer("~1", "/", "~0", "~").Replace(segment))
		if n == nil {
			return at, false
		}
	}
	if _, rest, found := strings.Cut(detail, "expression "); found {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			if expression, err := strconv.Unquote(quoted); err == nil {
				if place, found := p.find(n, strings.TrimSuffix(expression, "…")); found {
					return place, true
				}
			}
		}
	}
	return at, true
}

// step is the member of a map or a list that a segment of a JSON pointer names, and
// the place of its key.
func (n *node) step(segment string) (Pos, *node) {
	if n == nil {
		return Pos{}, nil
	}
	if i, err := strconv.Atoi(segment); err == nil && i >= 0 && i < len(n.items) {
		return n.items[i].Pos, n.items[i]
	}
	if member := n.get(segment); member != nil {
		return n.keyOf(segment), member
	}
	return Pos{}, nil
}

// find is the place of an expression in a value or below it.
func (p *parser) find(n *node, expression string) (Pos, bool) {
	if n.shape == text {
		inner := whole(n.text())
		if !inner.is {
			inner = inside{source: n.text()}
		}
		if strings.HasPrefix(inner.source, expression) {
			return p.within(n, inner.offset), true
		}
	}
	for _, item := range n.items {
		if at, found := p.find(item, expression); found {
			return at, true
		}
	}
	for _, f := range n.fields {
		if at, found := p.find(f.value, expression); found {
			return at, true
		}
	}
	return Pos{}, false
}
