package sim

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// Starts counts how often each task of an execution was started, by its reference.
type Starts map[string]int

// Add counts the tasks that were started in a part of a history.
func (s Starts) Add(events []event.Event) error {
	for _, e := range events {
		if e.Type == event.TaskRequested {
			s[event.ParseRun(e.Task).Ref]++
		}
	}
	return nil
}

// Busiest names the tasks of a definition that started most often: the likely loop of an execution
// that does not end. It returns "" if no task started twice.
func (s Starts) Busiest(def *dsl.Definition) string {
	const limit = 3 // names
	highest := 0
	for _, n := range s {
		highest = max(highest, n)
	}
	if highest < 2 { // a task that starts once does not loop
		return ""
	}
	var names []string
	lowest := highest // of the named ones
	for ref, t := range def.Tasks() {
		// The last iteration may not have reached all of its tasks.
		if s[ref] >= highest-1 && len(names) < limit && !slices.Contains(names, t.Name) {
			names, lowest = append(names, t.Name), min(lowest, s[ref])
		}
	}
	times := history.Count(highest, "time")
	if len(names) == 1 {
		return fmt.Sprintf("task %s was started %s", names[0], times)
	}
	if lowest < highest {
		return fmt.Sprintf("tasks %s were started up to %s", strings.Join(names, ", "), times)
	}
	return fmt.Sprintf("tasks %s were started %s each", strings.Join(names, ", "), times)
}
