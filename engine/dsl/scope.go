package dsl

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/lazyregexp"
)

// scope lists the variables that have a value at some point.
type scope []string

func (s scope) with(names ...string) scope { return slices.Concat(s, scope(names)) }

func (s scope) has(name string) bool { return slices.Contains(s, name) }

// The scopes of a workflow's own expressions.
func workflowInput() scope { return scope{"secrets", "workflow", "runtime"} }

func workflowOutput() scope { return scope{"context", "secrets", "workflow", "runtime"} }

// The scopes of a task's expressions, in order of evaluation; s holds the variables bound
// by enclosing tasks.
func (s scope) before() scope { return s.with("context", "secrets", "task", "workflow", "runtime") }

func (s scope) during() scope { return s.before().with("input", "authorization") }

func (s scope) exported() scope { return s.during().with("output") }

// detailsOf returns the name that follows a caught error's variable in a scope to mark it as an
// error.
func detailsOf(variable string) string { return variable + ".details" }

// catching returns s with the variable of a caught error.
func (s scope) catching(variable string) scope { return s.with(variable, detailsOf(variable)) }

// isError reports whether the innermost variable with this name holds a caught error.
func (s scope) isError(variable string) bool {
	for i, name := range slices.Backward(s) {
		if name == variable {
			return i+1 < len(s) && s[i+1] == detailsOf(variable)
		}
	}
	return false
}

var detailsPattern = lazyregexp.New(`\$(\w+)\.details\b`)

// current rewrites "details" of a caught error, the name that some runtimes use, to the
// specification's "detail".
func (s scope) current(src string) string {
	return detailsPattern().ReplaceAllStringFunc(src, func(found string) string {
		if s.isError(leadingName(found)) {
			return strings.TrimSuffix(found, "s")
		}
		return found
	})
}
