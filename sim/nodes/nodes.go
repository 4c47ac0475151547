// Package nodes reads YAML and reports each mistake with its position. It is used for
// mocks and test files, which people write by hand.
package nodes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/spelling"
)

// maxNodes bounds the size of a file after its aliases are expanded.
const maxNodes = 200_000

// Reader reads YAML nodes and collects all mistakes with their positions.
type Reader struct {
	file   string
	source []byte
	budget int // number of nodes that may still be read
	list   []dsl.Mistake
}

// New returns a Reader of a file; mistakes name the file.
func New(name string, source []byte) *Reader {
	return &Reader{file: name, source: source, budget: maxNodes}
}

// Root returns the root of the single document in the file, nil if it is empty or cannot
// be parsed. Syntax errors are recorded as mistakes.
func (r *Reader) Root() *yaml.Node {
	src := r.source
	// YAML allows no tabs between tokens; in valid JSON they occur nowhere else.
	if json.Valid(src) {
		src = bytes.ReplaceAll(src, []byte("\t"), []byte(" "))
	}
	root, mistakes := dsl.YAML(r.file, src)
	r.list = append(r.list, mistakes...)
	return root
}

// Errorf records a mistake at a node.
func (r *Reader) Errorf(n *yaml.Node, format string, args ...any) {
	at := dsl.Pos{Line: n.Line, Column: n.Column}
	r.list = append(r.list, dsl.Mistake{Pos: at, Message: fmt.Sprintf(format, args...), File: r.file})
}

// Err returns all mistakes so far as a *dsl.Mistakes, nil if there are none.
func (r *Reader) Err() error {
	if len(r.list) == 0 {
		return nil
	}
	return dsl.NewMistakes(r.source, r.list)
}

// take follows an alias, and returns false if the file is too large.
func (r *Reader) take(n *yaml.Node) (*yaml.Node, bool) {
	r.budget--
	if r.budget == 0 {
		r.Errorf(n, "too large: more than %d values", maxNodes)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, r.budget > 0
}

// Fields are the keys that an object may have, with their readers.
type Fields map[string]func(value *yaml.Node)

// Object reads a map: known keys by their readers, others by rest. If rest is nil, other
// keys are mistakes.
func (r *Reader) Object(n *yaml.Node, what string, known Fields, rest func(key, value *yaml.Node)) {
	n, ok := r.take(n)
	if !ok {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.Errorf(n, "%s is %s, want a map", what, Spelled(n))
		return
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			r.Errorf(key, "%s: want keys that are plain text", what)
		case seen[key.Value]:
			r.Errorf(key, "%s has %q twice", what, key.Value)
		case read != nil:
			if value, ok = r.take(value); ok {
				read(value)
			}
		case rest != nil:
			rest(key, value)
		default:
			r.Errorf(key, "%s has no key %q, %s", what, key.Value, known.hint(key.Value))
		}
		seen[key.Value] = true
	}
}

// Each returns a reader of a list whose items are read by read.
func (r *Reader) Each(what string, read func(*yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			r.Errorf(n, "%s is %s, want a list", what, Spelled(n))
			return
		}
		for _, item := range n.Content {
			if item, ok := r.take(item); ok {
				read(item)
			}
		}
	}
}

// Spelled describes a node for messages.
func Spelled(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "empty"
	default:
		return fmt.Sprintf("%q", n.Value)
	}
}

// hint suggests a known key for a misspelled one.
func (f Fields) hint(word string) string {
	if guess := f.Nearest(word); guess != "" {
		return fmt.Sprintf("did you mean %q?", guess)
	}
	return "want one of " + strings.Join(slices.Sorted(maps.Keys(f)), ", ")
}

// Nearest returns the known key that is most similar to a word, or "".
func (f Fields) Nearest(word string) string {
	return spelling.Word(word, slices.Sorted(maps.Keys(f)))
}
