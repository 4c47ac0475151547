package expr

import (
	"maps"
	"math/big"
	"slices"

	"github.com/itchyny/gojq"
)

// Equal says whether jq's == holds: numbers by value (1 == 1.0), lists and objects by content.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case string:
		y, ok := b.(string)
		return ok && x == y
	case int:
		if y, ok := b.(int); ok {
			return x == y
		}
		return equalNumbers(a, b)
	case float64, *big.Int:
		return equalNumbers(a, b)
	case []any:
		return equalLists(x, b)
	case map[string]any:
		return equalObjects(x, b)
	default:
		return Equal(adopt(a), b)
	}
}

func equalNumbers(a, b any) bool {
	switch b.(type) {
	case int, float64, *big.Int:
		return gojq.Compare(a, b) == 0
	case nil, bool, string, []any, map[string]any:
		return false
	default:
		return equalNumbers(a, adopt(b))
	}
}

func equalLists(a []any, b any) bool {
	switch b := b.(type) {
	case []any:
		return slices.EqualFunc(a, b, Equal)
	case []string, []map[string]any:
		return equalLists(a, adopt(b))
	default:
		return false
	}
}

func equalObjects(a map[string]any, b any) bool {
	switch b := b.(type) {
	case map[string]any:
		return maps.EqualFunc(a, b, Equal)
	case map[string]string:
		return equalObjects(a, adopt(b))
	default:
		return false
	}
}

// Size estimates how many bytes Encode writes.
func Size(v any) int {
	switch v := v.(type) {
	case nil, bool:
		return 4
	case string:
		return len(v) + 2
	case int, float64:
		return 8
	case *big.Int:
		return digits(v)
	case []any:
		size := 2 + len(v)
		for _, item := range v {
			size += Size(item)
		}
		return size
	case map[string]any:
		size := 2
		for key, field := range v {
			size += len(key) + 4 + Size(field)
		}
		return size
	default:
		return Size(adopt(v))
	}
}

// digits estimates the decimal digits of n.
func digits(n *big.Int) int { return n.BitLen()*3/10 + 2 }

func sortedKeys[T any](fields map[string]T) []string {
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
