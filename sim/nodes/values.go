package nodes

import (
	"errors"
	"math"
	"math/big"
	"time"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
)

// Text reads a scalar as it is written.
func (r *Reader) Text(n *yaml.Node, what string) string {
	n, _ = r.take(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.Errorf(n, "%s is %s, want text", what, Spelled(n))
		return ""
	}
	return n.Value
}

// Texts reads a scalar, or a list of scalars.
func (r *Reader) Texts(n *yaml.Node, what string) []string {
	n, _ = r.take(n)
	if n.Kind != yaml.SequenceNode {
		return []string{r.Text(n, what)}
	}
	out := []string{}
	for _, item := range n.Content {
		out = append(out, r.Text(item, what))
	}
	return out
}

// TextMap reads a map of scalars.
func (r *Reader) TextMap(n *yaml.Node, what string) map[string]string {
	out := map[string]string{}
	r.Object(n, what, nil, func(key, value *yaml.Node) { out[key.Value] = r.Text(value, key.Value) })
	return out
}

// Delay reads a duration of a fixed length.
func (r *Reader) Delay(n *yaml.Node, what string) time.Duration {
	d, err := dsl.ParseDuration(r.Data(n))
	switch {
	case err != nil:
		r.Errorf(n, "%s: %v", what, err)
	case d.Months != 0 || !d.Until.IsZero():
		r.Errorf(n, "%s: %v has no fixed length, want days or less", what, d)
	}
	begin := time.Unix(0, 0)
	return d.From(begin).Sub(begin)
}

// Data reads any value. Dates stay text.
func (r *Reader) Data(n *yaml.Node) any {
	n, ok := r.take(n)
	if !ok {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		r.Object(n, "data", nil, func(key, value *yaml.Node) { out[key.Value] = r.Data(value) })
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			out = append(out, r.Data(item))
		}
		return out
	default:
		return r.scalar(n)
	}
}

func (r *Reader) scalar(n *yaml.Node) any {
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
		r.Errorf(n, "%s: %v", Spelled(n), err)
	}
	return out
}
