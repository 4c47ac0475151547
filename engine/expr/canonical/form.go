package canonical

import (
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Form returns the canonical form of v, equal to Decode(Encode(v)), or v itself if it is canonical
// already. In the canonical form a number without a fraction is an int (*big.Int if it is large),
// NaN is null, -0 is 0, and strings are UTF-8. Form never modifies v. It also accepts values that
// Decode would reject as too deep or too large.
func Form(v any) any {
	out, _ := form(v)
	return out
}

// form also reports whether the result differs from v.
func form(v any) (out any, differs bool) {
	switch v := v.(type) {
	case nil, bool, int:
		return v, false
	case string:
		return formOfString(v)
	case float64:
		out = formOfFloat(v)
		same, isFloat := out.(float64)
		return out, !isFloat || same != v
	case *big.Int:
		out = Int(v)
		_, differs = out.(int)
		return out, differs
	case []any:
		return formOfList(v)
	case map[string]any:
		return formOfObject(v)
	default:
		out, _ = form(adopt(v))
		return out, true
	}
}

func formOfString(s string) (any, bool) {
	if utf8.ValidString(s) {
		return s, false
	}
	// One replacement character for each invalid byte, as in Encode.
	return string([]rune(s)), true
}

func formOfFloat(f float64) any {
	switch size := math.Abs(f); {
	case math.IsNaN(f):
		return nil
	case math.IsInf(f, 0):
		return math.Copysign(math.MaxFloat64, f)
	case size >= 1e21 || f != math.Trunc(f):
		return f
	case size < 1<<53:
		return int(f)
	default:
		// Encode writes the shortest digits that identify f, not its exact value.
		n, _ := new(big.Int).SetString(strconv.FormatFloat(f, 'f', -1, 64), 10)
		return Int(n)
	}
}

func formOfList(items []any) (any, bool) {
	if items == nil {
		return []any{}, true
	}
	var out []any
	for i, item := range items {
		changed, differs := form(item)
		if differs && out == nil {
			out = append(make([]any, 0, len(items)), items[:i]...)
		}
		if out != nil {
			out = append(out, changed)
		}
	}
	if out == nil {
		return items, false
	}
	return out, true
}

func formOfObject(fields map[string]any) (any, bool) {
	if fields == nil {
		return map[string]any{}, true
	}
	for key, field := range fields {
		if _, differs := form(field); differs || !utf8.ValidString(key) {
			return rebuiltObject(fields), true
		}
	}
	return fields, false
}

// rebuiltObject adds members in the order of Encode: if two keys become equal, the last wins.
func rebuiltObject(fields map[string]any) map[string]any {
	out := make(map[string]any, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		name, _ := formOfString(key)
		text, _ := name.(string)
		out[text], _ = form(fields[key])
	}
	return out
}

// number returns the value of a JSON number in its canonical form.
func number(text string) any {
	if i, err := strconv.Atoi(text); err == nil {
		return i
	}
	if !strings.ContainsAny(text, ".eE") {
		if n, ok := new(big.Int).SetString(text, 10); ok {
			return n
		}
	}
	f, err := json.Number(text).Float64()
	if err != nil && !math.IsInf(f, 0) {
		return nil
	}
	return formOfFloat(f)
}
