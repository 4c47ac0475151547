package expr

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// SyntaxError says why an expression cannot be compiled.
type SyntaxError struct {
	Offset  int // the byte of the source where the trouble was noticed
	Message string
}

func (e *SyntaxError) Error() string { return e.Message }

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

// syntaxError puts what the parser says into words for the author of a document.
func syntaxError(src string, err error) error {
	var parse *gojq.ParseError
	if !errors.As(err, &parse) {
		return &SyntaxError{Message: err.Error()}
	}
	if err.Error() == "unexpected EOF" {
		return &SyntaxError{Offset: len(src), Message: "the expression ends too early"}
	}
	at := min(max(parse.Offset-len(parse.Token), 0), len(src))
	return &SyntaxError{Offset: at, Message: fmt.Sprintf("%s at character %d", err, utf8.RuneCountInString(src[:at])+1)}
}
