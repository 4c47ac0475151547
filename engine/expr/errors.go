package expr

import (
	"fmt"
	"strconv"
)

// SyntaxError says why an expression cannot be compiled.
type SyntaxError struct {
	Offset     int // the byte of the source that is wrong
	Message    string
	Suggestion string // what to write instead, or ""

	character int // the same place, counted in characters from 1; 0 if it is not known
}

// Error is all of it in one line, for where there is no document to point into.
func (e *SyntaxError) Error() string {
	text := e.Message
	if e.character > 0 {
		text += fmt.Sprintf(" at character %d", e.character)
	}
	if e.Suggestion != "" {
		text += " (" + e.Suggestion + ")"
	}
	return text
}

// UnknownVariable is a variable that does not exist where the expression stands.
type UnknownVariable struct {
	Name string // without the $
}

func (e *UnknownVariable) Error() string { return "unknown variable $" + e.Name }

// Failure is an evaluation without a result: the data does not suit the expression.
type Failure struct {
	Source  string // the expression
	Message string
}

func (e *Failure) Error() string {
	return fmt.Sprintf("expression %s: %s", strconv.Quote(clip(e.Source)), e.Message)
}

// MissingSecret is a secret that an expression reads and that is not there.
type MissingSecret struct {
	Name string
}

func (e *MissingSecret) Error() string { return "no secret " + strconv.Quote(e.Name) }

func clip(source string) string {
	const most = 200
	if len(source) <= most {
		return source
	}
	return source[:most] + "…"
}
