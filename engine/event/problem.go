package event

import (
	"cmp"
	"strings"
)

// Problem is a workflow error in the form of RFC 7807.
type Problem struct {
	Type     string `json:"type"` // a URI; before publication it may be one of the short names below
	Status   int    `json:"status"`
	Title    string `json:"title,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"` // JSON pointer to the task
}

// The standard errors of the specification, by their short names.
const (
	Configuration  = "configuration"
	Validation     = "validation"
	Expression     = "expression"
	Authentication = "authentication"
	Authorization  = "authorization"
	Timeout        = "timeout"
	Communication  = "communication"
	Runtime        = "runtime"
)

// standard holds each short name's default status and title.
//
//nolint:gochecknoglobals // a read-only table
var standard = map[string]struct {
	status int
	title  string
}{
	Configuration:  {400, "Configuration Error"},
	Validation:     {400, "Validation Error"},
	Expression:     {400, "Expression Error"},
	Authentication: {401, "Authentication Error"},
	Authorization:  {403, "Authorization Error"},
	Timeout:        {408, "Timeout"},
	Communication:  {500, "Communication Error"},
	Runtime:        {500, "Runtime Error"},
}

// NewProblem returns a standard error with its default status and title.
func NewProblem(short, detail string) *Problem {
	s := standard[short]
	return &Problem{Type: short, Status: s.status, Title: s.title, Detail: detail}
}

// Error returns the problem in one line.
func (p *Problem) Error() string {
	text := cmp.Or(p.Title, ShortType(p.Type))
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	return text
}

// Base URIs of the standard error types: of the tagged specification, and since its renaming.
const (
	BaseV1   = "https://serverlessworkflow.io/spec/1.0.0/errors/"
	BaseMain = "https://open-workflow-specification.org/spec/1.0.0/errors/"
)

// bases lists the base URIs that the specification has given the standard errors; borrowed lists
// those of other engines, below which documents also name errors of their own.
//
//nolint:gochecknoglobals // read-only tables
var (
	bases = []string{
		BaseV1,
		BaseMain,
		"https://serverlessworkflow.io/dsl/errors/types/",
		"https://open-workflow-specification.org/dsl/errors/types/",
		"https://serverlessworkflow.io.io/spec/1.0.0/errors/",
		"https://serverlessworkflow.io.io/dsl/errors/types/",
	}
	borrowed = []string{
		"https://serverlessworkflow.io/errors/",
		"https://open-workflow-specification.org/1.0.0/errors/",
	}
)

// CutBase splits a URI into a base URI of the standard errors and the name after it; base is "" if
// the URI has none.
func CutBase(uri string) (base, name string) {
	for _, base := range bases {
		if name, ok := strings.CutPrefix(uri, base); ok {
			return base, name
		}
	}
	for _, base := range borrowed {
		name, ok := strings.CutPrefix(uri, base)
		if _, is := standard[name]; ok && is {
			return base, name
		}
	}
	return "", uri
}

// ShortType returns the short name of a standard error type with any of the base URIs, and
// any other type unchanged.
func ShortType(uri string) string {
	_, name := CutBase(uri)
	if _, ok := standard[name]; ok {
		return name
	}
	return uri
}

// FullType returns the URI below base for a short name, and any other type unchanged.
func FullType(short, base string) string {
	if _, ok := standard[short]; ok {
		return base + short
	}
	return short
}
