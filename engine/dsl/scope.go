package dsl

import "slices"

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
