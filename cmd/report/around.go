package report

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
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
	segments := parts(iteration)
	for _, segment := range slices.Backward(segments) {
		if strings.HasPrefix(segment, "/") {
			return strings.NewReplacer("~2", "#", "~3", "@").Replace(segment)
		}
	}
	return ""
}

// parts are the segments of an iteration: numbers, laps, and references, which may
// have dots in them.
func parts(path string) []string {
	var out []string
	for path != "" {
		end := strings.IndexByte(path, '.')
		if path[0] == '/' {
			end = referenceEnd(path)
		}
		if end < 0 {
			return append(out, path)
		}
		out, path = append(out, path[:end]), path[end+1:]
	}
	return out
}

// referenceEnd is where a reference ends that an iteration begins with: behind it
// is a number, a lap or another reference.
func referenceEnd(path string) int {
	for i := 1; i < len(path)-1; i++ {
		if path[i] != '.' {
			continue
		}
		rest, _, _ := strings.Cut(path[i+1:], ".")
		if rest != "" && (rest[0] == '/' || strings.Trim(strings.TrimPrefix(rest, "r"), "0123456789") == "") {
			return i
		}
	}
	return -1
}

// shorter is a path without its last segment.
func shorter(path string) string {
	segments := parts(path)
	return strings.Join(segments[:len(segments)-1], ".")
}

// turn is what tells a run from others of its task inside the same run: the
// iteration of a loop, a lap, or the attempt; "" if there is nothing.
func (x *run) turn() string {
	rest := behind(x.parent.task.Iteration, x.task.Iteration)
	var said []string
	for _, part := range parts(rest) {
		if !strings.HasPrefix(part, "/") {
			said = append(said, part)
		}
	}
	return strings.Join(said, ".")
}

// retry is which attempt of the run around it a run belongs to, from 0 on.
func (x *run) retry() string {
	rest := behind(x.parent.task.Attempt, x.task.Attempt)
	return strings.TrimLeft(strings.TrimLeft(rest, "0"), ".")
}

// behind is what a path has more than one that it begins with.
func behind(path, longer string) string {
	return strings.TrimPrefix(strings.TrimPrefix(longer, path), ".")
}
