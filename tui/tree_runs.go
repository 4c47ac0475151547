package tui

import (
	"strings"
	"time"
)

// find returns the run of an event, which may be a new one.
func (t *taskTree) find(e *Event) int32 {
	key := runKey{t.tasks.find(e.Ref, e), e.Iteration, e.Attempt}
	if at, ok := t.known[key]; ok {
		return at
	}
	at := int32(len(t.runs))
	parent, rest := t.around(key)
	t.runs = append(t.runs, taskRun{key: key, parent: parent, state: Pending, began: e.At, first: e.Version})
	t.known[key] = at
	t.active[at] = true
	t.runs[at].turn = t.join(parent, rest, at)
	t.revive(parent)
	t.changes++
	return at
}

// revive reopens ended runs, since a run inside has begun.
func (t *taskTree) revive(at int32) {
	for ; at >= 0 && t.runs[at].state.Ended(); at = t.runs[at].parent {
		r := &t.runs[at]
		failed := r.state == Faulted
		if at > 0 {
			t.active[at] = true
		}
		r.state, r.ended, r.settled, r.text = Running, time.Time{}, 0, ""
		if failed {
			t.blame(r)
		}
	}
}

// around returns the run that contains another one, and its turn.
func (t *taskTree) around(key runKey) (at int32, rest taskTurn) {
	for _, parent := range t.tasks.parents(key.task) {
		inside, ok := key.iteration, true
		if t.tasks.calls(parent) {
			inside, ok = called(key.iteration, t.tasks.at(parent).Ref)
		}
		if !ok {
			continue
		}
		for iteration, more := inside, true; more; iteration, more = shorter(iteration) {
			for attempt, again := key.attempt, true; again; attempt, again = shorter(attempt) {
				if at, ok := t.known[runKey{parent, iteration, attempt}]; ok {
					return at, taskTurn{iteration: beyond(inside, iteration), attempt: beyond(key.attempt, attempt)}
				}
			}
		}
	}
	return 0, taskTurn{iteration: key.iteration, attempt: key.attempt}
}

// called returns the iteration of the call of a function; the last element of the iteration inside
// names the caller.
func called(iteration, ref string) (outside string, ok bool) {
	if strings.ContainsAny(ref, "#@") {
		ref = strings.NewReplacer("#", "~2", "@", "~3").Replace(ref)
	}
	outside, ok = strings.CutSuffix(iteration, ref)
	if outside == "" || !ok {
		return "", ok
	}
	return strings.CutSuffix(outside, ".")
}

// shorter removes the last element of a path of turns.
func shorter(path string) (string, bool) {
	if path == "" {
		return "", false
	}
	return path[:max(0, strings.LastIndexByte(path, '.'))], true
}

// beyond returns what a path adds to its beginning.
func beyond(path, beginning string) string {
	return strings.TrimPrefix(path[len(beginning):], ".")
}

// recent is how many turns of a task may be under way.
const recent = 8

// join adds a run to an existing or a new turn of another run.
func (t *taskTree) join(parent int32, turn taskTurn, at int32) int32 {
	p := &t.runs[parent]
	for i := len(p.turns) - 1; i >= max(0, len(p.turns)-recent); i-- {
		if p.turns[i].iteration == turn.iteration && p.turns[i].attempt == turn.attempt {
			p.turns[i].runs = append(p.turns[i].runs, at)
			return int32(i)
		}
	}
	turn.runs = []int32{at}
	p.turns = append(p.turns, turn)
	return int32(len(p.turns) - 1)
}
