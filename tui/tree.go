package tui

import (
	"slices"
	"strings"
	"time"
)

// taskTree is what runs have come of the tasks of a document. It grows by the events
// of a history, each of which costs the same however many came before.
type taskTree struct {
	tasks   taskList
	runs    []taskRun // the first one is the workflow itself
	known   map[runKey]int32
	version int64 // of the last event

	active  map[int32]bool // runs that have not ended
	current int32          // the run that the last event was about
	changes int            // how often something has come or gone
	window  treeWindow
}

// runKey names a run of a task.
type runKey struct {
	task               int32
	iteration, attempt string
}

// taskRun is one run of a task.
type taskRun struct {
	key    runKey
	parent int32 // the run that it is inside of
	turn   int32 // of that
	state  State
	turns  []taskTurn
	faults []int32 // turns that failed, by hundreds

	began, ended       time.Time
	until              time.Time // when what it waits for comes
	waits              []taskWait
	text               string
	call               string // what was sent, and the status of the answer
	first              int64  // version of the first event that is about it
	requested, settled int64  // versions of the events, 0 if there were none
}

// taskWait is a time in which a run did nothing: it waited, or paused before it tried
// again; of the workflow, it was suspended.
type taskWait struct {
	state          State // Waiting, Retrying or Suspended
	from, to       time.Time
	began, stopped int64 // versions of the events; 0: it goes on
}

// taskTurn is one go through the tasks inside of another: an iteration, an attempt,
// a lap after a jump back. Its names are what it adds to those of the run around.
type taskTurn struct {
	iteration, attempt string
	runs               []int32
	failed             bool
}

// hundred is how many turns are folded into one line, and how many such lines into
// another one.
const hundred = 100

func newTaskTree() *taskTree {
	t := &taskTree{}
	t.window.init()
	t.reset()
	return t
}

// reset forgets the history, but not what is folded.
func (t *taskTree) reset() {
	t.runs = []taskRun{{key: runKey{task: workflowTask}, parent: -1, state: Pending}}
	t.known, t.active = map[runKey]int32{}, map[int32]bool{}
	t.version, t.current = 0, 0
	t.changes++
}

// read takes up the document. What the history told of other tasks stays.
func (t *taskTree) read(d *Document) {
	if d == nil || t.tasks.of == d {
		return
	}
	same := t.tasks.sameAs(d)
	t.tasks.of = d
	if same {
		return
	}
	t.tasks = newTaskList(d)
	t.reset()
}

// add takes up events that follow those it knows.
func (t *taskTree) add(events []Event) {
	for i := range events {
		if events[i].Version <= t.version {
			continue
		}
		t.version = events[i].Version
		t.take(&events[i])
	}
}

func (t *taskTree) take(e *Event) {
	if e.Ref == "" {
		t.workflow(e)
		return
	}
	at := t.find(e)
	if e.Type == "task.requested" {
		t.runs[at].requested = e.Version
	}
	t.settle(at, e)
	t.current = at
}

// workflow takes up an event of the execution as a whole.
func (t *taskTree) workflow(e *Event) {
	r := &t.runs[0]
	if r.began.IsZero() {
		r.began, r.requested, r.first = e.At, e.Version, e.Version
	}
	if e.State == "" {
		return
	}
	r.state, r.text = e.State, e.Text
	r.rests(e)
	r.ended = time.Time{}
	if e.State.Ended() {
		r.ended, r.settled = e.At, e.Version
	}
}

// settle notes what a run is by an event.
func (t *taskTree) settle(at int32, e *Event) {
	r := &t.runs[at]
	if e.State == "" {
		return
	}
	before := r.state
	r.state, r.until = e.State, time.Time{}
	r.rests(e)
	r.text = ""
	if e.State.Ended() {
		text := e.Text
		if r.call = e.Call; r.call != "" {
			text = strings.Replace(text, r.call+"  ", "", 1)
		}
		r.text = brief(text, e.State)
	}
	switch {
	case e.State.Ended():
		r.ended, r.settled = e.At, e.Version
		delete(t.active, at)
	case e.State == Waiting || e.State == Retrying:
		r.until = e.Until
	}
	if e.State == Faulted || before == Faulted {
		t.blame(r)
	}
}

// rests notes that a run waits from an event on, or no more.
func (r *taskRun) rests(e *Event) {
	if n := len(r.waits); n > 0 && r.waits[n-1].stopped == 0 {
		r.waits[n-1].to, r.waits[n-1].stopped = e.At, e.Version
	}
	switch e.State {
	case Waiting, Retrying, Suspended:
		r.waits = append(r.waits, taskWait{state: e.State, from: e.At, began: e.Version})
	default:
	}
}

// briefest is how much is kept of what a run gave that went well: there are many.
const briefest = 100

func brief(text string, state State) string {
	if state != Completed || len(text) <= briefest {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:briefest], ""))
}

// blame notes whether a turn has failed.
func (t *taskTree) blame(r *taskRun) {
	if r.parent < 0 {
		return
	}
	p := &t.runs[r.parent]
	turn := &p.turns[r.turn]
	failed := slices.ContainsFunc(turn.runs, func(at int32) bool { return t.runs[at].state == Faulted })
	if failed == turn.failed {
		return
	}
	turn.failed = failed
	for len(p.faults) <= int(r.turn)/hundred {
		p.faults = append(p.faults, 0)
	}
	p.faults[r.turn/hundred] += int32(2*truth(failed) - 1)
}

// failures counts the turns that failed among some.
func (t *taskTree) failures(p *taskRun, from, to int) int {
	n := 0
	for i := from; i < to; {
		if i%hundred == 0 && i+hundred <= to {
			if i/hundred < len(p.faults) {
				n += int(p.faults[i/hundred])
			}
			i += hundred
			continue
		}
		n += truth(p.turns[i].failed)
		i++
	}
	return n
}
