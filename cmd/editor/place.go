package editor

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/yaml"
)

// place holds all schemas that apply to one place in a file.
type place []*yaml.Node

// members returns the value of a member of a map as text, and whether the map has it.
type members func(key string) (value string, has bool)

// top returns the place of a whole file of a kind: workflow, mocks or test.
func top(kind string, has members) place { return place{}.with(language().Get(kind), has) }

// with adds a schema, and those that it includes for a map with the given members.
func (p place) with(s *yaml.Node, has members) place {
	if s == nil || s.Shape != yaml.Object {
		return p
	}
	p = append(p, s)
	if name, is := strings.CutPrefix(s.Get("$ref").Text(), definitions); is {
		p = p.with(language().Get(name), has)
	}
	for _, keyword := range []string{"allOf", "anyOf"} {
		if list := s.Get(keyword); list != nil {
			for _, one := range list.Items {
				p = p.with(one, has)
			}
		}
	}
	if condition := s.Get("if"); condition != nil && holds(condition, has) {
		p = p.with(s.Get("then"), has)
	}
	return p
}

// holds reports whether a map has the required keys of a condition, with their values.
func holds(condition *yaml.Node, has members) bool {
	if has == nil {
		return false
	}
	for _, key := range texts(condition.Get("required")) {
		if _, is := has(key); !is {
			return false
		}
	}
	if properties := condition.Get("properties"); properties != nil {
		for _, f := range properties.Fields {
			if value, _ := has(f.Key); value != f.Value.Get("const").Text() {
				return false
			}
		}
	}
	return true
}

func texts(n *yaml.Node) []string {
	var out []string
	if n != nil {
		for _, item := range n.Items {
			out = append(out, item.Text())
		}
	}
	return out
}

// member returns the place of a member; has are the members of its value, if that is a map.
func (p place) member(key string, has members) place {
	var out place
	for _, s := range p {
		if found := s.Get("properties").Get(key); found != nil {
			out = out.with(found, has)
		} else if other := s.Get("additionalProperties"); other != nil {
			out = out.with(other, has)
		}
	}
	return out
}

// item returns the place of an item of a list.
func (p place) item(has members) place {
	var out place
	for _, s := range p {
		out = out.with(s.Get("items"), has)
	}
	return out
}

// is reports whether a place has a schema of the definitions.
func (p place) is(definition string) bool {
	return slices.Contains(p, language().Get(definition))
}

// description explains the place; "" if the schema does not.
func (p place) description() string {
	for _, s := range p {
		if text := s.Get("description").Text(); text != "" {
			return text
		}
	}
	return ""
}

// values returns the possible values of a string, or examples of them.
func (p place) values() []string {
	var out []string
	for _, s := range p {
		for _, keyword := range []string{"enum", "examples"} {
			out = append(out, texts(s.Get(keyword))...)
		}
		if s.Get("type").Text() == "boolean" {
			out = append(out, "true", "false")
		}
	}
	return out
}

// keys returns the keys that a map can have, in the order in which they are offered.
func (p place) keys() []string {
	var out []string
	for _, s := range p {
		if properties := s.Get("properties"); properties != nil {
			for _, f := range properties.Fields {
				if !slices.Contains(out, f.Key) {
					out = append(out, f.Key)
				}
			}
		}
	}
	return out
}

// free returns the keys that can be added to a map: those that it lacks and that are compatible
// with the ones it has.
func (p place) free(has members) []string {
	present := func(key string) bool { _, is := has(key); return is }
	return slices.DeleteFunc(p.keys(), func(key string) bool {
		return present(key) || slices.ContainsFunc(p, func(s *yaml.Node) bool {
			needed := texts(s.Get("dependencies").Get(key))
			return !all(needed, present) || excluded(s.Get("oneOf"), key, present)
		})
	})
}

// excluded reports whether a key belongs only to alternatives that lack a key of a map.
func excluded(alternatives *yaml.Node, key string, present func(string) bool) bool {
	if alternatives == nil {
		return false
	}
	var chosen []string // the keys of alternatives that the map has
	for _, one := range alternatives.Items {
		for _, k := range texts(one.Get("required")) {
			if present(k) {
				chosen = append(chosen, k)
			}
		}
	}
	mentioned := false
	for _, one := range alternatives.Items {
		required := texts(one.Get("required"))
		if !slices.Contains(required, key) {
			continue
		}
		mentioned = true
		if all(chosen, func(k string) bool { return slices.Contains(required, k) }) {
			return false
		}
	}
	return mentioned
}

func all(words []string, is func(string) bool) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !is(w) })
}
