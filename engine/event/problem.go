package event

import "strings"

// Problem is an error of a workflow in the form of RFC 7807.
type Problem struct {
	Type     string `json:"type"` // a URI, or one of the short names below until it is published
	Status   int    `json:"status"`
	Title    string `json:"title,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"` // JSON pointer of the task
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
//nolint:gochecknoglobals // a table that nobody changes
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

// NewProblem is a standard error with its default status and title.
func NewProblem(short, detail string) *Problem {
	s := standard[short]
	return &Problem{Type: short, Status: s.status, Title: s.title, Detail: detail}
}

// Error says the problem in one line.
func (p *Problem) Error() string {
	text := p.Title
	if text == "" {
		text = ShortType(p.Type)
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	return text
}

// Bases of error types: the tagged specification's, and the one since its renaming.
const (
	BaseV1   = "https://serverlessworkflow.io/spec/1.0.0/errors/"
	BaseMain = "https://open-workflow-specification.org/spec/1.0.0/errors/"
)

// bases are all spellings that documents use for the standard errors.
//
//nolint:gochecknoglobals // a table that nobody changes
var bases = []string{
	BaseV1,
	BaseMain,
	"https://serverlessworkflow.io/dsl/errors/types/",
	"https://open-workflow-specification.org/dsl/errors/types/",
	"https://serverlessworkflow.io.io/spec/1.0.0/errors/",
	"https://serverlessworkflow.io.io/dsl/errors/types/",
}

// ShortType is the short name of a standard error's type in any of its
// spellings, and the type itself for all others.
func ShortType(uri string) string {
	for _, base := range bases {
		if short, ok := strings.CutPrefix(uri, base); ok {
			if _, ok := standard[short]; ok {
				return short
			}
		}
	}
	return uri
}

// FullType writes a short name out as a URI below base; other types stay as they are.
func FullType(short, base string) string {
	if _, ok := standard[short]; ok {
		return base + short
	}
	return short
}
