package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// Busiest describes which tasks of an execution were started most often, which is what
// loops in an execution that does not end. It returns "" if no task started twice.
func Busiest(ctx context.Context, st *store.Store, def *dsl.Definition, tenant, id string) (string, error) {
	const page, most = 1000, 3
	counts := map[string]int{}
	for at := int64(0); ; at += page {
		events, err := st.History(ctx, tenant, id, at, page)
		if err != nil {
			return "", err
		}
		for _, e := range events {
			if e.Type == event.TaskRequested {
				counts[event.ParseRun(e.Task).Ref]++
			}
		}
		if len(events) < page {
			break
		}
	}
	highest := 0
	for _, n := range counts {
		highest = max(highest, n)
	}
	if highest < 2 { // a task that starts once does not loop
		return "", nil
	}
	var names []string
	for ref, t := range def.Tasks() {
		// The last iteration may not have reached all of its tasks.
		if counts[ref] >= highest-1 && len(names) < most && !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	times := history.Count(highest, "time")
	if len(names) == 1 {
		return fmt.Sprintf("task %s was started %s", names[0], times), nil
	}
	return fmt.Sprintf("tasks %s were started %s each", strings.Join(names, ", "), times), nil
}
