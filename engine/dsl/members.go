package dsl

import (
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/yaml"
)

// members describes the keys that a map of the document may have. Its methods return a
// changed copy.
type members struct {
	known    []string
	required []string
	hints    []string          // keys that conflict with those present, to suggest for unknown ones
	below    map[string]string // keys that belong under another key → that key
	open     bool              // other keys are allowed
}

func keys(known ...string) members { return members{known: known} }

func (m members) need(required ...string) members {
	m.required = required
	return m
}

// under returns m with keys that belong under another key of the map.
func (m members) under(parent string, children ...string) members {
	m.below = maps.Clone(m.below)
	if m.below == nil {
		m.below = map[string]string{}
	}
	for _, child := range children {
		m.below[child] = parent
	}
	return m
}

func (m members) others() members {
	m.open = true
	return m
}

// moveDown moves keys under the key that they belong to so that mistakes in their values are
// reported, too.
func moveDown(n *yaml.Node, below map[string]string) {
	for _, f := range n.Fields {
		parent := below[f.Key]
		if parent == "" || strings.Contains(parent, ":") {
			continue
		}
		under := n.Get(parent)
		if under == nil {
			under = &yaml.Node{Pos: f.Pos, Shape: yaml.Object, Data: map[string]any{}}
			n.Fields = append(slices.Clip(n.Fields), yaml.Field{Key: parent, Pos: f.Pos, Value: under})
		}
		if under.Shape == yaml.Object && under.Get(f.Key) == nil {
			under.Fields = append(slices.Clip(under.Fields), f)
		}
	}
}

// absent returns the known keys that a map does not have.
func absent(n *yaml.Node, known []string) []string {
	var out []string
	for _, k := range known {
		if n.Get(k) == nil {
			out = append(out, k)
		}
	}
	return out
}

// misspelt reports whether a key is present under a misspelt name, which has already been reported.
func misspelt(n *yaml.Node, name string, known []string) bool {
	free := absent(n, known)
	return slices.ContainsFunc(n.Fields, func(f yaml.Field) bool {
		return !slices.Contains(known, f.Key) && closest(f.Key, free) == name
	})
}
