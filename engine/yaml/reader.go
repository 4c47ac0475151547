package yaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/spelling"
)

// maxRead is the maximum number of values that a Reader reads, including those repeated by aliases.
const maxRead = 200_000

// Reader reads a file written by hand, such as mocks or tests, and collects all mistakes with their
// positions.
type Reader struct {
	source    []byte
	collector *Collector
	values    *treeBuilder
}

// NewReader returns a Reader of a file; mistakes show its name. keys are words after which
// a missing colon is recognized.
func NewReader(file string, source []byte, keys ...string) *Reader {
	c := NewCollector(file, keys...)
	return &Reader{source: source, collector: c, values: newTreeBuilder(c, maxRead, maxRead)}
}

// Root returns the root of the single document in the file. It returns nil if the file is
// empty or cannot be parsed; the latter is recorded as a mistake.
func (r *Reader) Root() *yaml3.Node {
	source := r.source
	// YAML allows no tabs between tokens; in valid JSON they occur nowhere else.
	if json.Valid(source) {
		source = bytes.ReplaceAll(source, []byte("\t"), []byte(" "))
	}
	return root(r.collector, source)
}

// Errorf records a mistake at a node.
func (r *Reader) Errorf(n *yaml3.Node, format string, args ...any) {
	r.collector.Mistake(posOf(n), "", format, args...)
}

// Err returns all mistakes so far as a *Mistakes, or nil if there are none.
func (r *Reader) Err() error {
	_, err := r.collector.Result(r.source)
	return err
}

// Data reads any value, by the rules for data in workflow documents: dates stay strings.
func (r *Reader) Data(n *yaml3.Node) any { return r.values.build(n, 1).Data }

// resolved follows an alias, and returns false if the file has too many values.
func (r *Reader) resolved(n *yaml3.Node) (*yaml3.Node, bool) {
	if n.Kind == yaml3.AliasNode {
		n = n.Alias
	}
	return n, r.values.count(posOf(n))
}

// Fields are the keys that an object may have, with their readers.
type Fields map[string]func(value *yaml3.Node)

// Object reads a map: known keys with their readers, others with rest. If rest is nil,
// other keys are mistakes.
func (r *Reader) Object(n *yaml3.Node, what string, known Fields, rest func(key, value *yaml3.Node)) {
	n, ok := r.resolved(n)
	if !ok {
		return
	}
	if n.Kind != yaml3.MappingNode {
		r.Errorf(n, "%s is %s, want a map", what, Spelled(n))
		return
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		switch {
		case key.Kind != yaml3.ScalarNode || isMerge(key):
			r.Errorf(key, "%s: want keys that are plain text", what)
		case seen[key.Value]:
			r.Errorf(key, "%s has %q twice", what, key.Value)
		case read != nil:
			if value, ok = r.resolved(value); ok {
				read(value)
			}
		case rest != nil:
			rest(key, value)
		default:
			r.Errorf(key, "unknown key %q in %s, %s", key.Value, what, known.hint(key.Value))
		}
		seen[key.Value] = true
	}
}

// Each returns a reader of a list that reads each item with read.
func (r *Reader) Each(what string, read func(*yaml3.Node)) func(*yaml3.Node) {
	return func(n *yaml3.Node) {
		if n.Kind != yaml3.SequenceNode {
			r.Errorf(n, "%s is %s, want a list", what, Spelled(n))
			return
		}
		for _, item := range n.Content {
			if item, ok := r.resolved(item); ok {
				read(item)
			}
		}
	}
}

// Text reads a scalar as written.
func (r *Reader) Text(n *yaml3.Node, what string) string {
	n, _ = r.resolved(n)
	if n.Kind != yaml3.ScalarNode || n.ShortTag() == "!!null" {
		r.Errorf(n, "%s is %s, want text", what, Spelled(n))
		return ""
	}
	return n.Value
}

// Texts reads a scalar, or a list of scalars.
func (r *Reader) Texts(n *yaml3.Node, what string) []string {
	n, _ = r.resolved(n)
	if n.Kind != yaml3.SequenceNode {
		return []string{r.Text(n, what)}
	}
	out := []string{}
	for _, item := range n.Content {
		out = append(out, r.Text(item, what))
	}
	return out
}

// TextMap reads a map of scalars.
func (r *Reader) TextMap(n *yaml3.Node, what string) map[string]string {
	out := map[string]string{}
	r.Object(n, what, nil, func(key, value *yaml3.Node) { out[key.Value] = r.Text(value, key.Value) })
	return out
}

// Spelled describes a node for messages.
func Spelled(n *yaml3.Node) string {
	switch {
	case n.Kind == yaml3.MappingNode:
		return "a map"
	case n.Kind == yaml3.SequenceNode:
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
