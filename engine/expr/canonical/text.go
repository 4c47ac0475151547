package canonical

// Text returns a string unchanged, and any other value as JSON.
func Text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(Encode(v))
}

// Scalar returns a string unchanged, and a number or a boolean as JSON. For null, lists and objects
// ok is false.
func Scalar(v any) (string, bool) {
	switch v.(type) {
	case nil, []any, map[string]any:
		return "", false
	default:
		return Text(v), true
	}
}

// Kind names the type of a value, for messages that must not show the value.
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
