package canonical

import (
	"maps"
	"math/big"
	"slices"

	"github.com/itchyny/gojq"
)

// Equal compares as jq's == does: numbers by value (1 == 1.0), lists and objects by content.
func Equal(a, b any) bool {
	b = adopt(b)
	switch a := adopt(a).(type) {
	case int, float64, *big.Int:
		switch b.(type) {
		case int, float64, *big.Int:
			return gojq.Compare(a, b) == 0
		}
		return false
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, Equal)
	default:
		return a == b
	}
}
