package tui

import (
	"slices"
	"strings"
	"time"
)

// taskTree shows the runs of an execution as lines, of which some can be folded.
type taskTree struct {
	runTree

	window treeWindow
}

// runTree holds the runs of the tasks of a document. It grows with the events of a history;
// adding an event takes the same time whatever the length of the history.
type runTree struct {
	tasks   taskList
	runs    []taskRun // the first one is the workflow itself
	known   map[runKey]int32
	version int64 // of the last event

	active  map[int32]bool // runs that have not ended
	current int32          // the run of the last event
	changes int            // counts the changes of what there is to show
}

// runKey names a run of a task.
type runKey struct {
	task               int32
	iteration, attempt string
}

// taskRun is one run of a task.
type taskRun struct {
	key    runKey
	parent int32 // the run that contains it
	turn   int32 // the turn of the parent that contains it
	state  State
	turns  []taskTurn
	faults []int32 // number of failed turns, for each hundred turns

	began, ended       time.Time
	until              time.Time // when its wait or retry is due
	waits              []taskWait
	text               string
	call               string // the request that was sent, and the status of the response
	first              int64  // version of its first event
	requested, settled int64  // versions of the events, 0 if there were none
}

// taskWait is a period in which a run did nothing: a wait, the delay before a retry, or, for
// the workflow itself, a suspension.
type taskWait struct {
	state          State // Waiting, Retrying or Suspended
	from, to       time.Time
	began, stopped int64 // versions of the events; stopped is 0 while it lasts
}

// taskTurn is one pass through the tasks inside a run: an iteration, an attempt, or another
// visit after a jump back. Its iteration and attempt are relative to those of that run.
type taskTurn struct {
	iteration, attempt string
	runs               []int32
	failed             bool
}

// hundred is the number of turns that are folded into one line, and of such lines that are
// folded into the next.
const hundred = 100

func newTaskTree() *taskTree {
	t := &taskTree{}
	t.window.init()
	t.reset()
	return t
}

// reset discards the runs. What the user has folded stays.
func (t *runTree) reset() {
	t.runs = []taskRun{{key: runKey{task: workflowTask}, parent: -1, state: Pending}}
	t.known, t.active = map[runKey]int32{}, map[int32]bool{}
	t.version, t.current = 0, 0
	t.changes++
}

// read sets the document. Tasks that only the history knows stay.
func (t *runTree) read(d *Document) {
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

// add adds the events that follow the last one.
func (t *runTree) add(events []Event) {
	for i := range events {
		if events[i].Version <= t.version {
			continue
		}
		t.version = events[i].Version
		t.take(&events[i])
	}
}

func (t *runTree) take(e *Event) {
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

// workflow applies an event of the execution itself.
func (t *runTree) workflow(e *Event) {
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

// settle updates the state of a run by an event.
func (t *runTree) settle(at int32, e *Event) {
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

// rests begins or ends a wait of a run by an event.
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

// briefest is the number of bytes kept of the output of a completed run: there are many.
const briefest = 100

func brief(text string, state State) string {
	if state != Completed || len(text) <= briefest {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:briefest], ""))
}

// blame updates whether the turn of a run has failed.
func (t *runTree) blame(r *taskRun) {
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

// failures counts the failed turns in a range.
func (t *runTree) failures(p *taskRun, from, to int) int {
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

// workflowTask stands for the workflow among the tasks.
const workflowTask int32 = -1

// taskList is the tasks of a document, and further ones found in a history.
type taskList struct {
	of     *Document
	tasks  []Task
	around [][]int32
	roots  []int
	byRef  map[string]int32
}

func newTaskList(d *Document) taskList {
	l := taskList{of: d, tasks: slices.Clone(d.Tasks), roots: slices.Clone(d.Roots), byRef: map[string]int32{}}
	l.around = make([][]int32, len(l.tasks))
	for i, t := range l.tasks {
		l.byRef[t.Ref] = int32(i)
		for _, child := range t.Children {
			if child >= 0 && child < len(l.tasks) {
				l.around[child] = append(l.around[child], int32(i))
			}
		}
	}
	return l
}

// sameAs reports whether a reloaded document has the same tasks.
func (l *taskList) sameAs(d *Document) bool {
	return l.of != nil && l.of.Text == d.Text && len(l.of.Tasks) == len(d.Tasks)
}

// at returns a task; that of the workflow has no name.
func (l *taskList) at(task int32) *Task {
	if task < 0 || int(task) >= len(l.tasks) {
		return &Task{}
	}
	return &l.tasks[task]
}

// parents returns the tasks that contain a task; the workflow if there are none.
func (l *taskList) parents(task int32) []int32 {
	if int(task) < len(l.around) {
		return l.around[task]
	}
	return nil
}

// calls reports whether a task calls a function, which is defined elsewhere.
func (l *taskList) calls(task int32) bool {
	t := l.at(task)
	return slices.ContainsFunc(t.Children, func(child int) bool {
		return child >= 0 && child < len(l.tasks) && !strings.HasPrefix(l.tasks[child].Ref, t.Ref+"/")
	})
}

// inside returns the tasks inside a task, or inside the workflow.
func (l *taskList) inside(task int32) []int {
	if task == workflowTask {
		return l.roots
	}
	return l.at(task).Children
}

// find returns the task of a reference. One that is missing in the document is derived from the
// event.
func (l *taskList) find(ref string, e *Event) int32 {
	if at, ok := l.byRef[ref]; ok {
		return at
	}
	if l.byRef == nil {
		l.byRef = map[string]int32{}
	}
	at := int32(len(l.tasks))
	l.tasks = append(l.tasks, Task{Ref: ref, Name: lastName(ref), Kind: "", Detail: ""})
	l.around = append(l.around, nil)
	l.byRef[ref] = at
	for up := above(ref); up != ""; up = above(up) {
		if parent, ok := l.byRef[up]; ok {
			l.tasks[parent].Children = append(slices.Clip(l.tasks[parent].Children), int(at))
			l.around[at] = []int32{parent}
			return at
		}
	}
	if strings.HasPrefix(ref, "/use/functions/") {
		l.adopt(at, e)
		return at
	}
	l.roots = append(l.roots, int(at))
	return at
}

// adopt finds the caller of a function that no document defines.
func (l *taskList) adopt(at int32, e *Event) {
	for caller := range l.tasks {
		if _, ok := called(e.Iteration, l.tasks[caller].Ref); ok && int32(caller) != at {
			l.tasks[caller].Children = append(slices.Clip(l.tasks[caller].Children), int(at))
			l.around[at] = append(l.around[at], int32(caller))
		}
	}
}

func above(ref string) string { return ref[:max(0, strings.LastIndexByte(ref, '/'))] }

// lastName returns the last name in a reference.
func lastName(ref string) string {
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	if !strings.Contains(name, "~") {
		return name
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
}

// caught reports whether a task of a try belongs to its error handler.
func caught(task, around *Task) bool {
	return strings.HasPrefix(task.Ref, around.Ref+"/catch/")
}

// find returns the run of an event, which may be a new one.
func (t *runTree) find(e *Event) int32 {
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
func (t *runTree) revive(at int32) {
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
func (t *runTree) around(key runKey) (at int32, rest taskTurn) {
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
func (t *runTree) join(parent int32, turn taskTurn, at int32) int32 {
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

// listTurns lists the last turns one by one, and earlier ones in ranges, which grow with age.
func (t *taskTree) listTurns(at int32, depth int16) {
	n := int32(len(t.runs[at].turns))
	single := n - 1 - (n-1)%10
	if n <= 20 {
		single = 0
	}
	from, size := int32(0), int32(10)
	for size*10 <= single {
		size *= 10
	}
	for ; from < single; from += size {
		for from+size > single {
			size /= 10
		}
		t.listRange(at, from, size, depth)
	}
	for turn := single; turn < n; turn++ {
		t.listOne(at, turn, depth)
	}
}

func (t *taskTree) listRange(at, from, size int32, depth int16) {
	if t.full() {
		return
	}
	l := treeLine{treePlace: treePlace{kind: rangePlace, run: at, turn: from, size: size}, depth: depth, folds: true}
	l.open = t.opened(l.treePlace, false)
	t.line(l)
	for part := from; l.open && part < from+size; part += size / 10 {
		if size == 10 {
			t.listOne(at, part, depth+1)
		} else {
			t.listRange(at, part, size/10, depth+1)
		}
	}
}

// listOne lists a turn; if it is the only one, in the line of its task.
func (t *taskTree) listOne(at, turn int32, depth int16) {
	if t.full() {
		return
	}
	r := &t.runs[at]
	if runs := r.turns[turn].runs; len(runs) == 1 && len(t.tasks.inside(r.key.task)) == 1 {
		t.listRun(runs[0], depth, true)
		return
	}
	l := treeLine{treePlace: treePlace{kind: turnPlace, run: at, turn: turn}, depth: depth, folds: true}
	l.open = t.opened(l.treePlace, int(turn) == len(r.turns)-1)
	t.line(l)
	if l.open {
		t.listTurn(at, turn, depth+1)
	}
}

// listTurn lists the tasks of a turn in the order of the document, then those missing there.
func (t *taskTree) listTurn(at, turn int32, depth int16) {
	r := &t.runs[at]
	runs := r.turns[turn].runs
	inside := t.tasks.inside(r.key.task)
	which := make([]int32, len(inside))
	clear(t.window.runOf)
	for _, run := range runs {
		t.window.runOf[t.runs[run].key.task] = run + 1
	}
	for i, task := range inside {
		which[i] = t.window.runOf[int32(task)]
		delete(t.window.runOf, int32(task))
	}
	var more []int32
	for _, run := range t.window.runOf {
		more = append(more, run-1)
	}
	slices.Sort(more)
	for i, task := range inside {
		if which[i] > 0 {
			t.listRun(which[i]-1, depth, false)
		} else {
			t.plan(treePlace{kind: plannedPlace, run: at, turn: turn, task: int32(task)}, depth)
		}
	}
	for _, run := range more {
		t.listRun(run, depth, false)
	}
}
