package history

import (
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
)

// Run names a run of a task for people: "charge[2] attempt 3". See Index and Attempt.
func Run(name, iteration, attempt string) string {
	if index := Index(iteration); index != "" {
		name += "[" + index + "]"
	}
	if text := Attempt(attempt); text != "" {
		name += " " + text
	}
	return name
}

// Task is a task id for people: its reference with the index and the attempt.
func Task(id string) string {
	run := event.ParseRun(id)
	return Run(run.Ref, run.Iteration, run.Attempt)
}

// Index is which turn of a loop a run belongs to, counted from 0 as $index is, or of a
// list that a task jumped back in; "" outside of loops. In nested loops the outer one
// comes first: "2.0".
func Index(iteration string) string {
	var turns []string
	for _, part := range Parts(iteration) {
		if !strings.HasPrefix(part, "/") { // where a function is called
			turns = append(turns, strings.TrimPrefix(part, "r"))
		}
	}
	return strings.Join(turns, ".")
}

// Attempt is which attempt of the tries around it a run belongs to: "attempt 2", with the
// outer one first in nested tries ("attempt 1.2"), and how often an operator has had it
// retried. "" is the first attempt.
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

// Attempts is Attempt without the word, as programs read it: "2", "1.2".
func Attempts(attempt string) string { return strings.TrimPrefix(Attempt(attempt), "attempt ") }

// Parts are the segments of an iteration or an attempt: numbers, "r" and a number, and
// references of tasks, which may have dots in them.
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

// referenceEnd is where a reference ends that a path begins with: behind it is a number,
// "r" and a number, or another reference.
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
