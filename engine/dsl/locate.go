package dsl

import (
	"bytes"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/schema"
)

// Locate returns the position that a run-time error refers to: that of the expression
// quoted in its detail, if it is below ref, else that of ref.
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
	if what, sentence, found := strings.Cut(detail, " does not match its schema: "); found {
		if place, found := n.violated(what, sentence); found {
			return place, true
		}
		return at, true
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

// violated returns the position of the JSON Schema keyword that rejected data. n holds the
// schema, what says which of the node's data was validated.
func (n *node) violated(what, sentence string) (Pos, bool) {
	sentence, _, _ = strings.Cut(sentence, "\n")
	path, keyword, ok := schema.Keyword(sentence)
	holder := n
	if own := n.get(what); own != nil {
		holder = own
	}
	document := holder.get("schema").get("document")
	if !ok || document == nil {
		return Pos{}, false
	}
	fits := alternatives(document, document, 0)
	for _, segment := range path {
		var next []*node
		for _, s := range fits {
			next = append(next, s.below(segment, document)...)
		}
		if len(next) == 0 {
			break
		}
		fits = next
	}
	for _, s := range fits {
		if s.get(keyword) != nil {
			return s.keyOf(keyword), true
		}
	}
	return fits[0].Pos, true
}

// alternatives returns the schemas that apply to a value along with s: those that it
// refers to, and those that it combines.
func alternatives(s, root *node, depth int) []*node {
	found := []*node{s}
	if depth > 8 {
		return found
	}
	if ref, ok := strings.CutPrefix(s.get("$ref").text(), "#/"); ok {
		target := root
		for segment := range strings.SplitSeq(ref, "/") {
			if target != nil {
				_, target = target.step(strings.NewReplacer("~1", "/", "~0", "~").Replace(segment))
			}
		}
		if target != nil {
			found = append(found, alternatives(target, root, depth+1)...)
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		if m := s.get(name); m != nil {
			for _, one := range m.items {
				found = append(found, alternatives(one, root, depth+1)...)
			}
		}
	}
	for _, name := range []string{"then", "else"} {
		if m := s.get(name); m != nil {
			found = append(found, alternatives(m, root, depth+1)...)
		}
	}
	return found
}

// below returns the schemas of a member or an item of the value that a schema describes.
func (n *node) below(segment string, root *node) []*node {
	var found *node
	if _, found = n.get("properties").step(segment); found == nil {
		_, found = n.get("prefixItems").step(segment)
	}
	if found == nil {
		if _, err := strconv.Atoi(segment); err == nil {
			if found = n.get("items"); found == nil {
				found = n.get("additionalItems")
			}
		} else if found = n.get("additionalProperties"); found != nil && found.shape != object {
			found = nil
		}
	}
	if found == nil {
		return nil
	}
	return alternatives(found, root, 0)
}

// step returns the member of a map or a list that a segment of a JSON pointer names, and
// the position of its key.
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

// find returns the position of an expression in a value or below it.
func (p *parser) find(n *node, expression string) (Pos, bool) {
	if n.shape == text {
		inner := whole(n.text())
		if !inner.is {
			inner = inside{source: n.text()}
		}
		if strings.HasPrefix(inner.source, expression) {
			return p.posWithin(n, inner.offset), true
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
