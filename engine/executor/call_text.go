package executor

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"flunq.io/flunq/engine/spelling"
)

// printable returns text on one line, without characters that control a terminal.
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

// didYouMean returns a suggestion for the end of a message, if a known name is similar.
func didYouMean(name string, known []string) string {
	if found := spelling.Word(name, known); found != "" {
		return fmt.Sprintf(" (did you mean %q?)", found)
	}
	return ""
}
