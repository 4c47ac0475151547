package content

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/expr/canonical"
)

// maxYAMLParts bounds the characters in a document that may begin a node. Each node costs
// the parser about 300 bytes.
const maxYAMLParts = 400_000

// Approximate memory of values. Each use of an alias is counted, since aliases can blow a document
// up.
const (
	yamlValue  = 32
	yamlObject = 336
)

// maxYAMLDepth bounds nesting, because the walk is recursive.
const maxYAMLDepth = 1000

// DecodeYAML decodes YAML to values that JSON can represent: keys and dates become strings. It
// walks the nodes itself because the library takes quadratic time for maps with many keys
// and converts dates to times.
func DecodeYAML(body []byte) (any, error) {
	parts := 0
	for _, c := range body {
		switch c {
		case ',', '[', '{', ':', '?', '-', '\n':
			parts++
		}
	}
	if parts > maxYAMLParts {
		return nil, fmt.Errorf("is YAML of more than %d parts (limit yaml-parts)", maxYAMLParts)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(body, &node); err != nil {
		return nil, fmt.Errorf("is not valid YAML: %w", err)
	}
	if node.Kind == 0 {
		return nil, nil
	}
	w := &yamlWalk{left: canonical.MaxMemory}
	data, err := w.value(&node, 0)
	if err != nil {
		return nil, fmt.Errorf("is not usable YAML: %w", err)
	}
	return data, nil
}

type yamlWalk struct{ left int } // bytes of memory

func (w *yamlWalk) value(n *yaml.Node, depth int) (any, error) {
	if w.left -= yamlValue + len(n.Value); w.left < 0 {
		return nil, fmt.Errorf("it would take more than %d MiB in memory (limit json-memory)", canonical.MaxMemory>>20)
	}
	if depth > maxYAMLDepth {
		return nil, fmt.Errorf("nested deeper than %d (limit yaml-depth)", maxYAMLDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return w.value(n.Content[0], depth)
	case yaml.AliasNode:
		return w.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			var err error
			if list[i], err = w.value(item, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case yaml.MappingNode:
		return w.object(n, depth)
	default:
		return yamlScalar(n), nil
	}
}

func (w *yamlWalk) object(n *yaml.Node, depth int) (any, error) {
	const group = 8
	w.left -= yamlObject * (1 + len(n.Content)/2/group)
	object := make(map[string]any, len(n.Content)/2)
	var merged []any
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		value, err := w.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a key is not a scalar", key.Line)
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
			continue
		}
		if _, twice := object[key.Value]; twice {
			return nil, fmt.Errorf("line %d: key %q is repeated", key.Line, key.Value)
		}
		object[key.Value] = value
	}
	for _, from := range merged {
		if err := merge(object, from); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
	}
	return object, nil
}

// merge adds the members of an object, or of a list of objects, without overwriting any.
func merge(object map[string]any, from any) error {
	switch from := from.(type) {
	case []any:
		for _, item := range from {
			if err := merge(object, item); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, value := range from {
			if _, ok := object[key]; !ok {
				object[key] = value
			}
		}
	default:
		return errors.New("<< wants an object")
	}
	return nil
}

// yamlScalar decodes a scalar. Numbers follow YAML 1.2, so 012 is 12.
func yamlScalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		if number, ok := yamlNumber(n); ok {
			return number
		}
	}
	return n.Value
}

var decimal = regexp.MustCompile(`^[-+]?[0-9]+$`)

func yamlNumber(n *yaml.Node) (any, bool) {
	if decimal.MatchString(n.Value) {
		if i, err := strconv.Atoi(n.Value); err == nil {
			return i, true
		}
		return new(big.Int).SetString(n.Value, 10)
	}
	var i int
	if n.ShortTag() == "!!int" && n.Decode(&i) == nil {
		return i, true
	}
	var f float64
	if n.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, false
	}
	return f, true
}
