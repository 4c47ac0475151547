package budget

import (
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/itchyny/gojq"
)

// deleted marks a value that an update deletes. sweep removes it when the update is complete.
type deleted struct{}

// markDeleted is the fallback for the right side of an update that has no result. A slice becomes an
// empty list, since nothing else could replace it.
func markDeleted(u *update, _ any, _ []any) (any, error) {
	if u.slice {
		return []any{}, nil
	}
	u.deletes = true
	return deleted{}, nil
}

// sweep removes what an update marked as deleted. gojq would do so in place, in data that others
// may be reading.
func sweep(m *Meter, dot any, _ []any) (any, error) {
	if !m.deletes {
		return dot, nil
	}
	m.walk(dot, 1)
	out, _ := swept(dot)
	return out, nil
}

func swept(v any) (out any, differs bool) {
	switch v := v.(type) {
	case deleted:
		return nil, true
	case []any:
		return sweptList(v)
	case map[string]any:
		return sweptObject(v)
	default:
		return v, false
	}
}

func sweptList(items []any) (any, bool) {
	out := make([]any, 0, len(items))
	differs := false
	for _, item := range items {
		if item == any(deleted{}) {
			differs = true
			continue
		}
		kept, changed := swept(item)
		out, differs = append(out, kept), differs || changed
	}
	if !differs {
		return items, false
	}
	return out, true
}

func sweptObject(fields map[string]any) (any, bool) {
	var out map[string]any
	for key, field := range fields {
		kept, changed := swept(field)
		if !changed {
			continue
		}
		if out == nil {
			out = maps.Clone(fields)
		}
		if field == any(deleted{}) {
			delete(out, key)
			continue
		}
		out[key] = kept
	}
	if out == nil {
		return fields, false
	}
	return out, true
}

// deletePaths is jq's delpaths without modifying its input.
func deletePaths(m *Meter, dot any, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, fmt.Errorf("delpaths(%s) cannot be applied to: %s", Describe(args[0]), Describe(dot))
	}
	m.walk(list, 1)
	targets := make([][]any, 0, len(list))
	for _, item := range list {
		target, ok := item.([]any)
		if !ok {
			return nil, fmt.Errorf("delpaths: path must be an array but got: %s", Describe(item))
		}
		if len(target) == 0 {
			return nil, nil
		}
		targets = append(targets, target)
	}
	return without(m, dot, targets)
}

// without returns v without the values at the paths in targets. It copies what it changes.
func without(m *Meter, v any, targets [][]any) (any, error) {
	if len(targets) == 0 || v == nil {
		return v, nil
	}
	m.copying(v)
	m.spend(len(targets))
	switch v := v.(type) {
	case map[string]any:
		return objectWithout(m, v, targets)
	case []any:
		return listWithout(m, v, targets)
	default:
		return nil, fmt.Errorf("cannot delete %s of: %s", Describe(targets[0][0]), Describe(v))
	}
}

func objectWithout(m *Meter, fields map[string]any, targets [][]any) (any, error) {
	below := map[string][][]any{}
	out := maps.Clone(fields)
	for _, target := range targets {
		key, ok := target[0].(string)
		if !ok {
			return nil, fmt.Errorf("expected a string for object key but got: %s", Describe(target[0]))
		}
		if len(target) == 1 {
			delete(out, key)
			continue
		}
		below[key] = append(below[key], target[1:])
	}
	for _, key := range slices.Sorted(maps.Keys(below)) {
		field, ok := out[key]
		if !ok {
			continue
		}
		kept, err := without(m, field, below[key])
		if err != nil {
			return nil, err
		}
		out[key] = kept
	}
	return out, nil
}

func listWithout(m *Meter, items []any, targets [][]any) (any, error) {
	below := make([][][]any, len(items))
	drop := make([]bool, len(items))
	for _, target := range targets {
		from, to, rest, err := located(0, len(items), target)
		if err != nil {
			return nil, err
		}
		m.spend(to - from)
		for i := from; i < to; i++ {
			if len(rest) == 0 {
				drop[i] = true
				continue
			}
			below[i] = append(below[i], rest)
		}
	}
	out := make([]any, 0, len(items))
	for i, item := range items {
		if drop[i] {
			continue
		}
		kept, err := without(m, item, below[i])
		if err != nil {
			return nil, err
		}
		out = append(out, kept)
	}
	return out, nil
}

// located returns the range of a list that a path selects, and the rest of the path.
func located(from, to int, target []any) (first, end int, rest []any, err error) {
	if len(target) == 0 {
		return from, to, nil, nil
	}
	switch key := target[0].(type) {
	case int, float64, *big.Int:
		i, _ := gojq.ToInt(key)
		if i < 0 {
			i += to - from
		}
		if i < 0 || i >= to-from {
			return 0, 0, nil, nil
		}
		return from + i, from + i + 1, target[1:], nil
	case map[string]any:
		low, lowOK := bound(key["start"], to-from, 0)
		high, highOK := bound(key["end"], to-from, to-from)
		if !lowOK || !highOK {
			return 0, 0, nil, fmt.Errorf("expected numbers for slicing a list but got: %s", Describe(key))
		}
		return located(from+low, from+max(low, high), target[1:])
	default:
		return 0, 0, nil, fmt.Errorf("expected a number for indexing an array but got: %s", Describe(key))
	}
}

// bound returns one end of a slice.
func bound(v any, length, missing int) (int, bool) {
	if v == nil {
		return missing, true
	}
	i, ok := gojq.ToInt(v)
	if f, isFloat := v.(float64); isFloat && missing == 0 && f < 0 && f != float64(i) {
		i-- // the start is rounded down
	} else if isFloat && missing > 0 && f > 0 && f != float64(i) {
		i++ // the end is rounded up
	}
	if i < 0 {
		i += length
	}
	return min(max(i, 0), length), ok
}
