package canonical

import (
	"maps"
	"math/big"
	"slices"

	"github.com/itchyny/gojq"
)

// Equal compares as jq's == does: numbers by value (1 == 1.0), lists and objects by content.
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
