package report

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// around returns the run of the task that contains another task, or else the execution.
func (r *Recording) around(execution *run, task event.Run) *run {
	if execution.doc == nil {
		return execution
	}
	ref := outer(execution.doc.def, task.Ref)
	iteration := task.Iteration
	if ref == "" {
		// The task of a function runs inside its caller: the last reference of the iteration.
		if ref = caller(iteration); ref == "" {
			return execution
		}
	}
	// The iteration and attempt of a run extend those of its parent.
	for {
		attempt := task.Attempt
		for {
			id := event.Run{Ref: ref, Iteration: iteration, Attempt: attempt}.String()
			if x := r.byKey[key(execution.execution, id)]; x != nil {
				return x
			}
			if attempt == "" {
				break
			}
			attempt = shorter(attempt)
		}
		if iteration == "" {
			return execution
		}
		iteration = shorter(iteration)
	}
}

// outer returns the reference of the task that contains a reference, "" if there is none.
func outer(def *dsl.Definition, ref string) string {
	for {
		i := strings.LastIndexByte(ref, '/')
		if i <= 0 {
			return ""
		}
		if ref = ref[:i]; def.Task(ref) != nil {
			return ref
		}
	}
}

// caller returns the last reference in an iteration: that of the task that called a
// function.
func caller(iteration string) string {
	segments := history.Parts(iteration)
	for _, segment := range slices.Backward(segments) {
		if strings.HasPrefix(segment, "/") {
			return strings.NewReplacer("~2", "#", "~3", "@").Replace(segment)
		}
	}
	return ""
}

// shorter removes the last segment of a path.
func shorter(path string) string {
	segments := history.Parts(path)
	return strings.Join(segments[:len(segments)-1], ".")
}

// iterationLabel returns the iteration of a run within its parent, "" if there is only one.
func (r *run) iterationLabel() string {
	rest := behind(r.parent.task.Iteration, r.task.Iteration)
	for strings.HasPrefix(rest, "r0.") { // enclosing lists that were not repeated
		rest = rest[len("r0."):]
	}
	return history.Index(rest)
}

// retry returns the attempt of the parent to which a run belongs.
func (r *run) retry() string {
	rest := behind(r.parent.task.Attempt, r.task.Attempt)
	for strings.HasPrefix(rest, "0.") { // enclosing tries that were not retried
		rest = rest[len("0."):]
	}
	return rest
}

// behind returns what longer adds to its prefix path.
func behind(path, longer string) string {
	return strings.TrimPrefix(strings.TrimPrefix(longer, path), ".")
}
