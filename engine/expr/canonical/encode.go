package canonical

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Encode encodes a value as compact JSON with sorted keys. Equal values have equal bytes.
func Encode(v any) []byte { return Append(nil, v) }

// Append appends to dst what Encode returns. NaN is encoded as null, an infinity as the largest
// number, -0 as 0, and invalid UTF-8 as the replacement character. In addition to the values of
// this package it accepts other integers, float32, json.Number, []string, []map[string]any and
// map[string]string.
func Append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return AppendText(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case float64:
		return appendFloat(dst, v)
	case *big.Int:
		return v.Append(dst, 10)
	case []any:
		return appendList(dst, v)
	case map[string]any:
		return appendObject(dst, v)
	default:
		return Append(dst, adopt(v))
	}
}

func appendList(dst []byte, items []any) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = Append(dst, item)
	}
	return append(dst, ']')
}

// appendObject writes the members sorted by key.
func appendObject(dst []byte, fields map[string]any) []byte {
	var few [8]string // most objects have no more members
	keys := few[:0]
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendText(dst, key), ':')
		dst = Append(dst, fields[key])
	}
	return append(dst, '}')
}

func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "null"...)
	case f == 0:
		return append(dst, '0')
	}
	f = min(max(f, -math.MaxFloat64), math.MaxFloat64)
	if size := math.Abs(f); size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// 1e-9 instead of 1e-09, as encoding/json does.
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// AppendText appends a string to dst, encoded as Encode does.
func AppendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); {
		b := s[i]
		if ' ' <= b && b <= '~' && b != '"' && b != '\\' {
			i++
			continue
		}
		size := 1
		if b >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = appendEscaped(append(dst, s[done:i]...), b)
		i += size
		done = i
	}
	return append(append(dst, s[done:]...), '"')
}

func appendEscaped(dst []byte, b byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case b >= utf8.RuneSelf:
		return utf8.AppendRune(dst, utf8.RuneError)
	case b == '"', b == '\\':
		return append(dst, '\\', b)
	case b == '\b':
		return append(dst, `\b`...)
	case b == '\f':
		return append(dst, `\f`...)
	case b == '\n':
		return append(dst, `\n`...)
	case b == '\r':
		return append(dst, `\r`...)
	case b == '\t':
		return append(dst, `\t`...)
	default:
		return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
	}
}

// adopt converts a value of another Go type to one of this package. It does not look inside.
func adopt(v any) any {
	switch v := v.(type) {
	case nil, bool, string, int, float64, *big.Int, []any, map[string]any:
		return v
	case int8:
		return int(v)
	case int16:
		return int(v)
	case int32:
		return int(v)
	case int64:
		return Int(big.NewInt(v))
	case uint8:
		return int(v)
	case uint16:
		return int(v)
	case uint32:
		return Int(new(big.Int).SetUint64(uint64(v)))
	case uint64:
		return Int(new(big.Int).SetUint64(v))
	case uint:
		return Int(new(big.Int).SetUint64(uint64(v)))
	case float32:
		return float64(v)
	case json.Number:
		return number(string(v))
	case []string:
		return adoptList(v)
	case map[string]string:
		return adoptObject(v)
	case []map[string]any:
		return adoptList(v)
	default:
		panic(fmt.Sprintf("canonical: a %T is not data", v))
	}
}

func adoptList[T any](items []T) []any {
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = item
	}
	return out
}

func adoptObject[T any](fields map[string]T) map[string]any {
	out := make(map[string]any, len(fields))
	for key, field := range fields {
		out[key] = field
	}
	return out
}

// Int returns an integer in its canonical form: an int if it fits, otherwise n.
func Int(n *big.Int) any {
	if n.IsInt64() {
		if i := int(n.Int64()); int64(i) == n.Int64() {
			return i
		}
	}
	return n
}
