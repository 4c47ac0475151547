// Package expr compiles and evaluates jq expressions. Its limits also bound hostile
// expressions and data, and are the same on every machine.
package expr

import (
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// Scope is the input of an evaluation.
type Scope struct {
	Dot any                            // the value of "."
	Now time.Time                      // the value of jq's now
	Var func(name string) (any, error) // returns a variable's value, by its name without the $
}

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	src     string
	path    *path      // set if the expression is a path; then code is nil
	code    *gojq.Code // set unless the expression is a path
	vars    []string   // variables that it uses, without the $
	secrets []string   // names that it certainly reads from $secrets

	doubts, condition []Doubt // parts that its author may not have meant, in general and in a condition
}

// Compile compiles jq source (without "${" and "}"). A variable for which known returns false is
// an error, as is any function that accesses its environment (input, env …).
func Compile(src string, known func(name string) bool) (*Program, error) {
	if len(src) > maxSource {
		return nil, &SyntaxError{Message: "the expression is too long"}
	}
	if strings.TrimSpace(src) == "" {
		return nil, &SyntaxError{Message: "it is empty", Suggestion: "for all of the data, write a dot: ${ . }"}
	}
	query, err := gojq.Parse(src)
	if err != nil {
		return nil, syntaxError(src, err)
	}
	p := &Program{src: src}
	p.path = pathOf(query)
	p.doubt(query, known)
	if err := p.resolve(query, known); err != nil {
		return nil, err
	}
	if p.path != nil {
		return p, nil
	}
	p.code, err = assemble(query, p.vars)
	if err != nil {
		return nil, &SyntaxError{Message: err.Error()}
	}
	return p, nil
}

// Source returns the expression as written.
func (p *Program) Source() string { return p.src }

// Secrets returns the names that the expression certainly reads from $secrets, sorted.
func (p *Program) Secrets() []string { return p.secrets }

// Vars returns the names of the variables that the expression uses, sorted, without the $.
func (p *Program) Vars() []string { return p.vars }

// Eval returns the result: null if there is none, a list if there are several. The result
// may share structure with s, and must not be modified.
func (p *Program) Eval(s *Scope) (any, error) {
	if p.path != nil {
		return p.follow(s)
	}
	results, err := p.run(s, maxResults)
	if err != nil {
		return nil, err
	}
	switch len(results) {
	case 0:
		return nil, nil
	case 1:
		return results[0], nil
	default:
		return results, nil
	}
}

// Test returns the truth of the first result as in jq: null and false are false, anything
// else is true.
func (p *Program) Test(s *Scope) (bool, error) {
	if p.path != nil {
		v, err := p.follow(s)
		return truth(v), err
	}
	results, err := p.run(s, 1)
	return len(results) > 0 && truth(results[0]), err
}

func truth(v any) bool { return v != nil && v != false }
