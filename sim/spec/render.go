package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/expr/canonical"
)

// flowWidth is the maximum width of a collection on one line.
const flowWidth = 80

// node returns a value as YAML.
func node(v any, style yaml3.Style) *yaml3.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml3.Node{Kind: yaml3.MappingNode, Style: style}
		for _, key := range order(v) {
			n.Content = append(n.Content, node(key, style), node(v[key], style))
		}
		return n
	case []any:
		n := &yaml3.Node{Kind: yaml3.SequenceNode, Style: style}
		for _, item := range v {
			n.Content = append(n.Content, node(item, style))
		}
		return n
	case *big.Int:
		return &yaml3.Node{Kind: yaml3.ScalarNode, Tag: "!!int", Value: v.String()}
	case string:
		n := &yaml3.Node{}
		n.SetString(v)
		if style == yaml3.FlowStyle && strings.Contains(v, "\n") {
			n.Style = yaml3.DoubleQuotedStyle
		}
		return n
	default:
		n := &yaml3.Node{}
		if err := n.Encode(v); err != nil {
			panic(fmt.Sprintf("spec: %T in an outcome: %v", v, err))
		}
		return n
	}
}

// order sorts keys alphabetically, except that the status of an expectation comes first.
func order(v map[string]any) []string {
	keys := slices.Sorted(maps.Keys(v))
	if i := slices.Index(keys, "status"); i > 0 && (v["output"] != nil || v["error"] != nil) {
		keys = append([]string{"status"}, slices.Delete(keys, i, i+1)...)
	}
	return keys
}

// flow returns a value on one line.
func flow(v any) string { return encoded(node(v, yaml3.FlowStyle)) }

// block returns a value on several lines, all but the first indented.
func block(v any, indent int) string {
	return strings.ReplaceAll(encoded(node(v, 0)), "\n", "\n"+strings.Repeat(" ", indent))
}

func encoded(n *yaml3.Node) string {
	var out bytes.Buffer
	enc := yaml3.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		panic(fmt.Sprintf("spec: write YAML: %v", err))
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// isCollection reports whether a value has more than one line in block style.
func isCollection(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	default:
		return false
	}
}

// asJSON returns a value for a JSON file, on several lines if the old one was.
func asJSON(v any, old string, indent int) string {
	text := canonical.Encode(v)
	if !strings.Contains(old, "\n") {
		return string(text)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, strings.Repeat(" ", indent), "  "); err != nil {
		return string(text)
	}
	return out.String()
}
