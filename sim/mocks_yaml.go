package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/near"
)

// maxNodes bounds a mocks file after its aliases are written out.
const maxNodes = 200_000

// nodeReader reads YAML nodes and keeps every mistake with its place.
type nodeReader struct {
	file   string
	budget int // of nodes still to be read
	errs   []error
}

// fields are the keys that an object may have, and what reads each.
type fields map[string]func(value *yaml.Node)

// parseNode gives the root of the one document in src, nil if it is empty.
func parseNode(name string, src []byte) (*yaml.Node, error) {
	// YAML takes no tabs between tokens, JSON has them nowhere else.
	if json.Valid(src) {
		src = bytes.ReplaceAll(src, []byte("\t"), []byte(" "))
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(name, err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, fmt.Errorf("%s:%d:%d: a second document: want one", name, more.Line, more.Column)
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(name, err)
	}
	return doc.Content[0], nil
}

// syntaxError gives the parser's complaint the form of the others. It knows no column.
func syntaxError(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	return fmt.Errorf("%s:%d:1: not YAML: %s", name, line, text)
}

func (r *nodeReader) errorf(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d:%d: %w", r.file, n.Line, n.Column, fmt.Errorf(format, args...)))
}

func (r *nodeReader) err() error { return errors.Join(r.errs...) }

// take follows an alias and says whether the file is still of a sane size.
func (r *nodeReader) take(n *yaml.Node) (*yaml.Node, bool) {
	r.budget--
	if r.budget == 0 {
		r.errorf(n, "too large: more than %d values", maxNodes)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, r.budget > 0
}

// object reads a map: known keys by their readers, others by rest. Without
// rest, other keys are mistakes.
func (r *nodeReader) object(n *yaml.Node, what string, known fields, rest func(key, value *yaml.Node)) {
	n, ok := r.take(n)
	if !ok {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.errorf(n, "%s is %s, want a map", what, spelled(n))
		return
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			r.errorf(key, "%s: want keys that are plain text", what)
		case seen[key.Value]:
			r.errorf(key, "%s has %q twice", what, key.Value)
		case read != nil:
			if value, ok = r.take(value); ok {
				read(value)
			}
		case rest != nil:
			rest(key, value)
		default:
			r.errorf(key, "%s has no key %q, %s", what, key.Value, known.hint(key.Value))
		}
		seen[key.Value] = true
	}
}

// each is the reader of a list, by a reader of its items.
func (r *nodeReader) each(what string, read func(*yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			r.errorf(n, "%s is %s, want a list", what, spelled(n))
			return
		}
		for _, item := range n.Content {
			if item, ok := r.take(item); ok {
				read(item)
			}
		}
	}
}

// text reads a scalar as it is written.
func (r *nodeReader) text(n *yaml.Node, what string) string {
	n, _ = r.take(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.errorf(n, "%s is %s, want text", what, spelled(n))
		return ""
	}
	return n.Value
}

// texts reads a scalar, or a list of them.
func (r *nodeReader) texts(n *yaml.Node, what string) []string {
	n, _ = r.take(n)
	if n.Kind != yaml.SequenceNode {
		return []string{r.text(n, what)}
	}
	out := []string{}
	for _, item := range n.Content {
		out = append(out, r.text(item, what))
	}
	return out
}

func (r *nodeReader) textMap(n *yaml.Node, what string) map[string]string {
	out := map[string]string{}
	r.object(n, what, nil, func(key, value *yaml.Node) { out[key.Value] = r.text(value, key.Value) })
	return out
}

func (r *nodeReader) delay(n *yaml.Node, what string) time.Duration {
	d, err := dsl.ParseDuration(r.data(n))
	switch {
	case err != nil:
		r.errorf(n, "%s: %w", what, err)
	case d.Months != 0 || !d.Until.IsZero():
		r.errorf(n, "%s: %v has no fixed length, want days or less", what, d)
	}
	return d.From(Epoch()).Sub(Epoch())
}

// data reads any value. What YAML would make a date stays text.
func (r *nodeReader) data(n *yaml.Node) any {
	n, ok := r.take(n)
	if !ok {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		r.object(n, "data", nil, func(key, value *yaml.Node) { out[key.Value] = r.data(value) })
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			out = append(out, r.data(item))
		}
		return out
	default:
		return r.scalar(n)
	}
}

func (r *nodeReader) scalar(n *yaml.Node) any {
	var (
		out any
		err error
	)
	switch n.ShortTag() {
	case "!!null":
	case "!!bool":
		var b bool
		err = n.Decode(&b)
		out = b
	case "!!int":
		var i int
		if err = n.Decode(&i); err == nil {
			return i
		}
		if whole, ok := new(big.Int).SetString(n.Value, 0); ok {
			return whole
		}
	case "!!float":
		var f float64
		if err = n.Decode(&f); err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			err = errors.New("JSON has no such number")
		}
		out = f
	default:
		return n.Value
	}
	if err != nil {
		r.errorf(n, "%s: %w", spelled(n), err)
	}
	return out
}

// spelled is a node as a message names it.
func spelled(n *yaml.Node) string {
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

// hint says what could have been meant by a wrong key.
func (f fields) hint(word string) string {
	if guess := f.nearest(word); guess != "" {
		return fmt.Sprintf("did you mean %q?", guess)
	}
	return "want one of " + strings.Join(slices.Sorted(maps.Keys(f)), ", ")
}

// nearest is the key that may have been meant by a word, or "".
func (f fields) nearest(word string) string {
	return near.Word(word, slices.Sorted(maps.Keys(f)))
}

// jsonText is v as JSON with sorted keys.
func jsonText(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("sim: %T in mocks: %v", v, err))
	}
	return strings.TrimSuffix(out.String(), "\n")
}
