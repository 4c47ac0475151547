package report

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// around is the run of the task that another runs inside, or the execution.
func (r *Recording) around(execution *run, task event.Run) *run {
	if execution.doc == nil {
		return execution
	}
	ref := outer(execution.doc.def, task.Ref)
	iteration := task.Iteration
	if ref == "" {
		// The task of a function runs inside of that which called it: the last
		// reference of the iteration.
		if ref = caller(iteration); ref == "" {
			return execution
		}
	}
	// A name of a run is that of the run around it, with more behind it, or as it is.
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

// outer is the reference of the task around that of a reference, "" if there is none.
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

// caller is the last reference in an iteration, which has some where functions are called.
func caller(iteration string) string {
	segments := history.Parts(iteration)
	for _, segment := range slices.Backward(segments) {
		if strings.HasPrefix(segment, "/") {
			return strings.NewReplacer("~2", "#", "~3", "@").Replace(segment)
		}
	}
	return ""
}

// shorter is a path without its last segment.
func shorter(path string) string {
	segments := history.Parts(path)
	return strings.Join(segments[:len(segments)-1], ".")
}

// turn is the index of a run among those of its task inside the same run, "" if there is
// only one.
func (x *run) turn() string {
	rest := behind(x.parent.task.Iteration, x.task.Iteration)
	for strings.HasPrefix(rest, "r0.") { // of lists around it that were not jumped back in
		rest = rest[len("r0."):]
	}
	return history.Index(rest)
}

// retry is which attempt of the run around it a run belongs to, as in its name.
func (x *run) retry() string {
	rest := behind(x.parent.task.Attempt, x.task.Attempt)
	for strings.HasPrefix(rest, "0.") { // of tries around it that were not retried
		rest = rest[len("0."):]
	}
	return rest
}

// behind is what a path has more than one that it begins with.
func behind(path, longer string) string {
	return strings.TrimPrefix(strings.TrimPrefix(longer, path), ".")
}
