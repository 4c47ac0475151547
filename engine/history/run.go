package history

import (
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
)

// Run formats a task run for people: "charge[2] attempt 3". See Index and Attempt.
func Run(name, iteration, attempt string) string {
	if index := Index(iteration); index != "" {
		name += "[" + index + "]"
	}
	if text := Attempt(attempt); text != "" {
		name += " " + text
	}
	return name
}

// TaskName returns the name of a task from its reference, which is a JSON pointer.
func TaskName(ref string) string {
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	return strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
}

// Task formats a task id for people: its reference with the index and the attempt.
func Task(id string) string {
	run := event.ParseRun(id)
	return Run(run.Ref, run.Iteration, run.Attempt)
}

// Index formats an iteration: the index of the loop iteration, counted from 0 like $index,
// or the number of jumps back in a list; "" outside loops. In nested loops the outer index
// comes first: "2.0".
func Index(iteration string) string {
	var indexes []string
	for _, part := range Parts(iteration) {
		if !strings.HasPrefix(part, "/") { // a reference of a function call
			indexes = append(indexes, strings.TrimPrefix(part, "r"))
		}
	}
	return strings.Join(indexes, ".")
}

// Attempt formats an attempt: "attempt 2", or "attempt 1.2" in nested tries, the outer one first,
// and the number of retries by an operator. The first attempt is "".
func Attempt(attempt string) string {
	var texts []string
	numbers := ""
	for _, part := range Parts(attempt) {
		if retried, ok := strings.CutPrefix(part, "r"); ok {
			texts, numbers = append(texts, "retried "+retried), ""
			continue
		}
		n, _ := strconv.Atoi(part)
		if text := strconv.Itoa(n + 1); numbers == "" {
			numbers = text
			texts = append(texts, "attempt "+numbers)
		} else {
			numbers += "." + text
			texts[len(texts)-1] = "attempt " + numbers
		}
	}
	return strings.Join(texts, " ")
}

// Attempts is Attempt without the word, for programs: "2", "1.2".
func Attempts(attempt string) string { return strings.TrimPrefix(Attempt(attempt), "attempt ") }

// Parts splits an iteration or an attempt into its segments: numbers, "r" and a number,
// and task references, which may contain dots.
func Parts(path string) []string {
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

// referenceEnd returns the end of the reference at the start of a path, or -1. A reference
// ends before a number, "r" and a number, or another reference.
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
