package dsl

import (
	"bytes"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/schema"
	"flunq.io/flunq/engine/yaml"
)

// Locate returns the position in the document that a run-time error refers to: that of the
// expression or the JSON Schema keyword that its detail quotes, if found below ref, otherwise that
// of ref. ok is false if the document has no ref.
func (d *Definition) Locate(ref, detail string) (at yaml.Pos, ok bool) {
	text := bytes.TrimPrefix(d.Source, []byte("\ufeff"))
	at, n := yaml.Read(yaml.NewCollector(""), text).At(ref)
	if n == nil {
		return at, false
	}
	if what, sentence, found := strings.Cut(detail, " does not match its schema: "); found {
		if place, found := violated(n, what, sentence); found {
			return place, true
		}
		return at, true
	}
	if _, rest, found := strings.Cut(detail, "expression "); found {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			if expression, err := strconv.Unquote(quoted); err == nil {
				if place, found := newSource(text).find(n, strings.TrimSuffix(expression, "…")); found {
					return place, true
				}
			}
		}
	}
	return at, true
}

// violated returns the position of the JSON Schema keyword that rejected data. n has the schema
// below its key what, or directly holds the schema.
func violated(n *yaml.Node, what, sentence string) (yaml.Pos, bool) {
	sentence, _, _ = strings.Cut(sentence, "\n")
	path, keyword, ok := schema.Keyword(sentence)
	holder := n
	if own := n.Get(what); own != nil {
		holder = own
	}
	document := holder.Get("schema").Get("document")
	if !ok || document == nil {
		return yaml.Pos{}, false
	}
	fits := alternatives(document, document, 0)
	for _, segment := range path {
		var next []*yaml.Node
		for _, s := range fits {
			next = append(next, below(s, segment, document)...)
		}
		if len(next) == 0 {
			break
		}
		fits = next
	}
	for _, s := range fits {
		if s.Get(keyword) != nil {
			return s.KeyPos(keyword), true
		}
	}
	return fits[0].Pos, true
}

// alternatives returns the schemas that apply to a value along with s: those that s refers to,
// and those that it combines.
func alternatives(s, root *yaml.Node, depth int) []*yaml.Node {
	found := []*yaml.Node{s}
	if depth > 8 {
		return found
	}
	if ref, ok := strings.CutPrefix(s.Get("$ref").Text(), "#/"); ok {
		if _, target := root.At(ref); target != nil {
			found = append(found, alternatives(target, root, depth+1)...)
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		if m := s.Get(name); m != nil {
			for _, one := range m.Items {
				found = append(found, alternatives(one, root, depth+1)...)
			}
		}
	}
	for _, name := range []string{"then", "else"} {
		if m := s.Get(name); m != nil {
			found = append(found, alternatives(m, root, depth+1)...)
		}
	}
	return found
}

// below returns the schemas for a member or an item of the value that a schema describes.
func below(n *yaml.Node, segment string, root *yaml.Node) []*yaml.Node {
	var found *yaml.Node
	if _, found = n.Get("properties").Step(segment); found == nil {
		_, found = n.Get("prefixItems").Step(segment)
	}
	if found == nil {
		if _, err := strconv.Atoi(segment); err == nil {
			if found = n.Get("items"); found == nil {
				found = n.Get("additionalItems")
			}
		} else if found = n.Get("additionalProperties"); found != nil && found.Shape != yaml.Object {
			found = nil
		}
	}
	if found == nil {
		return nil
	}
	return alternatives(found, root, 0)
}
