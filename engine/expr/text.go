package expr

// Text is a value as text: a string as it is, all else as JSON.
func Text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(Encode(v))
}

// Scalar writes a string as it is, and numbers and booleans as JSON does. Null,
// lists and objects have no such text.
func Scalar(v any) (string, bool) {
	switch v.(type) {
	case nil, []any, map[string]any:
		return "", false
	default:
		return Text(v), true
	}
}

// Kind names the kind of a value, for messages that must not show it.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return "a number"
	}
}
