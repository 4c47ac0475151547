// Package excerpt prepares text for messages if it may be long or contain characters that control
// a terminal.
package excerpt

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Of returns text, or its beginning and … if it is longer than limit bytes. It never splits a
// character.
func Of(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// Escaped replaces each character that Controls reports with an escape such as \u001b, and each byte that
// is not UTF-8 with U+FFFD.
func Escaped(text string) string { return EscapedFunc(text, Controls) }

// EscapedFunc is like Escaped for other characters: those for which escape returns true.
func EscapedFunc(text string, escape func(rune) bool) string {
	if !strings.ContainsFunc(text, escape) && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if escape(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// Controls reports whether a character controls a terminal or changes the direction of text. Line
// breaks and tabs do not.
func Controls(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
