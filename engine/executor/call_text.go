package executor

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/near"
)

// scalar writes a string as it is, and numbers and booleans as JSON does.
// Null, lists and objects have no such text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case nil, []any, map[string]any:
		return "", false
	default:
		return string(expr.Encode(v)), true
	}
}

// text is scalar, and JSON for lists and objects.
func text(v any) string {
	if s, ok := scalar(v); ok {
		return s
	}
	return string(expr.Encode(v))
}

// kindOf names a value's kind, for messages that must not show the value.
func kindOf(v any) string {
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

// printable is text on one line without characters that would steer a terminal.
func printable(text string) string {
	var out strings.Builder
	space := false
	for _, r := range text {
		switch {
		case r == utf8.RuneError, unicode.Is(unicode.Cf, r):
		case unicode.IsSpace(r):
			space = true
		case unicode.IsControl(r):
		default:
			if space && out.Len() > 0 {
				out.WriteByte(' ')
			}
			space = false
			out.WriteRune(r)
		}
	}
	return out.String()
}

// shortened cuts text to at most limit bytes, between two characters.
func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}

// didYouMean is the tail of a message about a wrong name, if a known one is close.
func didYouMean(name string, known []string) string {
	if found := near.Word(name, known); found != "" {
		return fmt.Sprintf(" (did you mean %q?)", found)
	}
	return ""
}
