// Package expr evaluates jq expressions, compiled once, within limits that
// hold for hostile expressions and data too, and the same on every machine.
package expr

import (
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// Scope is what an expression sees.
type Scope struct {
	Dot any                            // the value of "."
	Now time.Time                      // what jq's now says
	Var func(name string) (any, error) // a variable's value, by its name without the $
}

// Program is a compiled expression. It does not change: any number of goroutines may evaluate it.
type Program struct {
	src     string
	path    *path      // what it is if it is no more than a path
	simple  *formula   // what it is if it is a formula; code evaluates what that cannot
	code    *gojq.Code // what it is otherwise
	vars    []string   // the variables it uses, without the $
	secrets []string   // the names it certainly reads from $secrets

	doubts, condition []Doubt // what its writer may not have meant, anywhere and in a condition
}

// Compile makes a Program of jq source (without "${" and "}"). A variable that
// known does not report is an error, as is anything that reaches outside (input, env …).
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
	if p.path = pathOf(query); p.path == nil {
		p.simple = formulaOf(query)
	}
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

// Source is the expression as it was written.
func (p *Program) Source() string { return p.src }

// Secrets are the names that it certainly reads from $secrets, sorted.
func (p *Program) Secrets() []string { return p.secrets }

// Vars are the names of the variables it uses, sorted, without the $.
func (p *Program) Vars() []string { return p.vars }

// Eval yields the result: none is null, several are a list.
// The result may share structure with s: it is not to be changed.
func (p *Program) Eval(s *Scope) (any, error) {
	if p.path != nil {
		return p.follow(p.path, s)
	}
	if p.simple != nil {
		if v, ok := p.operate(p.simple, s); ok {
			return v, nil
		}
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

// Test yields the truth of the first result, as jq sees it (null and false are not true).
func (p *Program) Test(s *Scope) (bool, error) {
	if p.path != nil {
		v, err := p.follow(p.path, s)
		return truth(v), err
	}
	if p.simple != nil {
		if v, ok := p.operate(p.simple, s); ok {
			return truth(v), nil
		}
	}
	results, err := p.run(s, 1)
	return len(results) > 0 && truth(results[0]), err
}

func truth(v any) bool { return v != nil && v != false }
