package search

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// mask are places in outcomes, as JSON pointers, that follow from the moment at
// which a run starts: by execution.
type mask map[string]map[string]bool

// maskOf compares the ends of a run with those of the same run at another time.
func maskOf(ends, later []sim.End) mask {
	m := mask{}
	for i, end := range ends {
		if i >= len(later) || later[i].ID != end.ID || later[i].Status != end.Status {
			continue
		}
		places := map[string]bool{}
		for _, d := range unequal("", outcomeValue(end), outcomeValue(later[i])) {
			places[d.Path] = true
		}
		m[sibling(end.ID)] = places
	}
	return m
}

// key is the same for ends that differ in masked places only.
func (m mask) key(end sim.End) string {
	places := m[sibling(end.ID)]
	text, err := json.Marshal(masked("", outcomeValue(end), places))
	if err != nil {
		return end.Outcome
	}
	sum := sha256.Sum256(append([]byte(end.Status), text...))
	return string(sum[:])
}

// outcomeValue is how an execution ended, as a value. Where its own id stands in it, as
// in an event that it has sent, it has the one that it would have if it were the first.
func outcomeValue(end sim.End) any {
	out := map[string]any{}
	var output, problem any
	if json.Unmarshal(asFirst(end.ID, end.Output), &output) == nil {
		out["output"] = output
	}
	if end.Error != nil && json.Unmarshal(asFirst(end.ID, event.Encode(end.Error)), &problem) == nil {
		out["error"] = problem
	}
	return out
}

// asFirst is a text of an execution, or of one that it has begun, with the id of its first
// sibling in the place of its own.
func asFirst(id string, text []byte) []byte {
	root, _, _ := strings.Cut(id, ".")
	first := sibling(root)
	if root == first || !bytes.Contains(text, []byte(root)) {
		return text
	}
	return regexp.MustCompile(regexp.QuoteMeta(root)+`\b`).ReplaceAllLiteral(text, []byte(first))
}

func masked(path string, v any, places map[string]bool) any {
	if places[path] {
		return "*"
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = masked(path+"/"+name, member, places)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = masked(path+"/"+strconv.Itoa(i), item, places)
		}
		return out
	default:
		return v
	}
}

// Unequal is a place at which two values differ.
type Unequal struct {
	Path string
	A, B any // nil where there is nothing, too
}

// unequal are the places at which two values differ, as deep as can be.
func unequal(path string, a, b any) []Unequal {
	x, ok1 := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if ok1 && ok2 {
		return unequalMembers(path, x, y)
	}
	v, ok1 := a.([]any)
	w, ok2 := b.([]any)
	if ok1 && ok2 && len(v) == len(w) {
		var out []Unequal
		for i := range v {
			out = append(out, unequal(path+"/"+strconv.Itoa(i), v[i], w[i])...)
		}
		return out
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []Unequal{{path, a, b}}
}

func unequalMembers(path string, x, y map[string]any) []Unequal {
	names := map[string]bool{}
	for name := range x {
		names[name] = true
	}
	for name := range y {
		names[name] = true
	}
	var out []Unequal
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, unequal(path+"/"+name, x[name], y[name])...)
	}
	return out
}
