package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
)

// hang returns the failure of an execution that waits forever, although it ends in other runs
// or should end.
func (chk *checker) hang(end sim.End, why string) *failure {
	task, detail := "", fmt.Sprintf("it is %s, and nothing more will happen", end.Status)
	if open := chk.openListen(end); open != nil {
		task, detail = open.Ref, open.Name+" listens forever"
		if types := invariant.EventTypes(open.Listen.To.Filters...); len(types) > 0 {
			detail = open.Name + " listens for " + strings.Join(types, ", ") + " forever"
		}
	}
	if why != "" {
		detail += ": " + why
	}
	return failed(Hang, RuleHang, end.ID, task, "%s", detail)
}

// hangs returns the failure of the runs without faults that wait forever while others
// end.
func (chk *checker) hangs(id string, usual, g *outcomeGroup) *failure {
	end := g.end
	end.ID = id
	why := ""
	if otherEvents([]*outcomeGroup{usual}, g.facts[0]) {
		_, why = chk.missed([]*outcomeGroup{usual}, g.facts[0])
	}
	return chk.hang(end, why)
}

// openListen returns the last open listen task of an execution; nil if there is none.
func (chk *checker) openListen(end sim.End) *dsl.Task {
	def := chk.definitionOf(end)
	var open []string
	for _, e := range end.History {
		switch e.Type { //nolint:exhaustive // the others neither begin nor end a task
		case event.TaskRequested:
			open = append(open, e.Task)
		case event.TaskCompleted:
			open = slices.DeleteFunc(open, func(run string) bool { return run == e.Task })
		}
	}
	for _, run := range slices.Backward(open) {
		if t := def.Task(event.ParseRun(run).Ref); t != nil && t.Kind == dsl.Listen {
			return t
		}
	}
	return nil
}

// missed returns the event that an execution missed although it receives it in other
// runs, and the task that listens for it. If there is none, it says that other events
// were received.
func (chk *checker) missed(usual []*outcomeGroup, got *historyFacts) (task, detail string) {
	usually := map[string]bool{}
	for _, g := range usual {
		for _, f := range g.facts {
			maps.Copy(usually, f.received)
		}
	}
	if chk.Config.Mocks != nil {
		for i, m := range chk.Config.Mocks.Events {
			e := m.Event(i, got.start)
			if id := e.Source + " " + e.ID; !usually[id] || got.received[id] {
				continue
			}
			listen := chk.listenFor(string(e.Type))
			if listen == nil {
				return "", fmt.Sprintf("%s came %s after the start, and no task listened for it", e.Type, history.Duration(m.After))
			}
			return listen.Ref, missedBy(listen, string(e.Type), m.After, got)
		}
	}
	return "", "it received other events than in runs without faults"
}

// missedBy describes how a task missed an event.
func missedBy(listen *dsl.Task, typ string, after time.Duration, got *historyFacts) string {
	came := fmt.Sprintf("%s came %s after the start", typ, history.Duration(after))
	for run, begun := range got.begun {
		if event.ParseRun(run).Ref != listen.Ref {
			continue
		}
		if late := begun.Sub(got.start) - after; late > 0 {
			return fmt.Sprintf("%s, %s before %s began to listen", came, history.Duration(late), listen.Name)
		}
		if ended, ok := got.ended[run]; ok && ended.Sub(got.start) <= after {
			return fmt.Sprintf("%s, when %s no longer listened", came, listen.Name)
		}
		// In the history a task begins at the time of its cause, not when a worker committed
		// it.
		return fmt.Sprintf("%s, before %s listened: a fault delayed its start", came, listen.Name)
	}
	return fmt.Sprintf("%s, and %s had not begun to listen by then", came, listen.Name)
}
