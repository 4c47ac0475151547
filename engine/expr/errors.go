package expr

import (
	"fmt"
	"strconv"

	"flunq.io/flunq/engine/excerpt"
)

// SyntaxError explains why an expression cannot be compiled.
type SyntaxError struct {
	Offset     int // byte offset of the mistake in the source
	Message    string
	Suggestion string // what to write instead, or ""

	character int // the same position in characters, from 1; 0 if unknown
}

// Error returns everything on one line, for use without a document.
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

// UnknownVariable is the error for an expression with a variable that does not exist in its scope.
type UnknownVariable struct {
	Name string // without the $
}

func (e *UnknownVariable) Error() string { return "unknown variable $" + e.Name }

// Failure is the error of an evaluation: the data does not fit the expression, or a limit was
// exceeded. Do not change its text: recorded events contain it, and a replay compares them.
type Failure struct {
	Source  string // the expression
	Message string
}

func (e *Failure) Error() string {
	return fmt.Sprintf("expression %s: %s", strconv.Quote(excerpt.Of(e.Source, 200)), e.Message)
}

// MissingSecret is the error of an expression that reads a secret that does not exist.
type MissingSecret struct {
	Name string
}

func (e *MissingSecret) Error() string { return "no secret " + strconv.Quote(e.Name) }
