package schema

import (
	"encoding/json"
	"math/big"
	"slices"
)

// plain converts large numbers in v to the type that package jsonschema expects. It
// returns v itself if there are none.
func plain(v any) any {
	if !holdsLarge(v) {
		return v
	}
	return copied(v)
}

func holdsLarge(v any) bool {
	switch v := v.(type) {
	case *big.Int:
		return true
	case []any:
		return slices.ContainsFunc(v, holdsLarge)
	case map[string]any:
		for _, field := range v {
			if holdsLarge(field) {
				return true
			}
		}
	}
	return false
}

func copied(v any) any {
	switch v := v.(type) {
	case *big.Int:
		return json.Number(v.String())
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = copied(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, field := range v {
			out[key] = copied(field)
		}
		return out
	default:
		return v
	}
}
