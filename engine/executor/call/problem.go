package call

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"flunq.io/flunq/engine/event"
)

// Configuration returns the problem of a call that its definition makes impossible.
func Configuration(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Configuration, fmt.Sprintf(format, args...))
}

// Expression returns the problem of an expression that fails or has an unusable value.
func Expression(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Expression, fmt.Sprintf(format, args...))
}

// Validation returns the problem of data that does not fit what is called.
func Validation(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Validation, fmt.Sprintf(format, args...))
}

// Communication returns the problem of a call without a usable response.
func Communication(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Communication, fmt.Sprintf(format, args...))
}

// Printable returns text on one line, without characters that control a terminal.
func Printable(text string) string {
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
