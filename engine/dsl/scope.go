package dsl

import (
	"regexp"
	"slices"
	"strings"
)

// scope is the names of the variables that have a value in some place.
type scope []string

func (s scope) with(names ...string) scope { return slices.Concat(s, scope(names)) }

func (s scope) has(name string) bool { return slices.Contains(s, name) }

// The scopes of a workflow's own expressions.
func workflowInput() scope  { return scope{"secrets", "workflow", "runtime"} }
func workflowOutput() scope { return scope{"context", "secrets", "workflow", "runtime"} }

// The scopes of a task's expressions, in the order in which the task comes to
// them; local are the variables that the tasks around it bind.
func (s scope) before() scope   { return s.with("context", "secrets", "task", "workflow", "runtime") }
func (s scope) during() scope   { return s.before().with("input", "authorization") }
func (s scope) exported() scope { return s.during().with("output") }

// detailsOf is what stands in a scope behind the variable of an error that was caught.
func detailsOf(variable string) string { return variable + ".details" }

// catching is s with the variable of an error.
func (s scope) catching(variable string) scope { return s.with(variable, detailsOf(variable)) }

// isError reports whether a variable is, where it was bound last, that of an error.
func (s scope) isError(variable string) bool {
	for i, name := range slices.Backward(s) {
		if name == variable {
			return i+1 < len(s) && s[i+1] == detailsOf(variable)
		}
	}
	return false
}

var detailsPattern = regexp.MustCompile(`\$(\w+)\.details\b`)

// current is an expression that reads the detail of an error by its name in the
// specification, where it uses the one that some runtimes give it.
func (s scope) current(src string) string {
	return detailsPattern.ReplaceAllStringFunc(src, func(found string) string {
		if s.isError(leadingName(found)) {
			return strings.TrimSuffix(found, "s")
		}
		return found
	})
}
