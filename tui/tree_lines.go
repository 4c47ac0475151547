package tui

import (
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/tui/canvas"
)

// lineKey identifies a line of the tree.
type lineKey struct {
	kind lineKind
	run  int32 // the run; otherwise the run that contains the line
	turn int32 // the first one of a range
	size int32 // of a range
	task int32 // one that has not run
}

type lineKind uint8

const (
	runLine lineKind = iota
	turnLine
	rangeLine
	plannedLine
)

// treeLine is a visible line.
type treeLine struct {
	lineKey

	depth  int16
	folds  bool // it contains something
	open   bool
	turned bool // it stands for its turn
}

// treeWindow is the visible part of a tree.
type treeWindow struct {
	lines []treeLine
	made  int // the number of changes it reflects

	folds  map[lineKey]bool // chosen by the user: true is open
	all    fold             // for everything else
	typed  string           // the filter
	found  int              // number of runs that match
	follow bool

	canvas.List

	at lineKey // of the cursor
}

// fold says how much is open.
type fold uint8

const (
	someOpen fold = iota // the interesting parts
	allOpen
	noneOpen
)

// maxTreeLines is the maximum number of lines of a tree.
const maxTreeLines = 20_000

// arrange rebuilds the lines if something has changed. The cursor stays on its line, or moves to the
// line into which that one was folded.
func (t *taskTree) arrange() {
	w := &t.window
	if w.made != t.changes {
		w.made = t.changes
		w.lines = w.lines[:0]
		if w.typed != "" {
			t.matches()
		} else {
			t.listRun(0, 0, false)
		}
		t.locate()
	}
	if w.follow && w.at.run != t.current {
		w.at = lineKey{kind: runLine, run: t.current}
		t.locate()
	}
}

// locate finds the line of the cursor.
func (t *taskTree) locate() {
	w := &t.window
	for at := w.at; ; {
		if i := slices.IndexFunc(w.lines, func(l treeLine) bool { return l.covers(at) }); i >= 0 {
			w.Cursor = i
			return
		}
		var ok bool
		if at, ok = t.outside(at); !ok {
			w.Cursor = max(0, min(w.Cursor, len(w.lines)-1))
			if len(w.lines) > 0 {
				w.at = w.lines[w.Cursor].lineKey
			}
			return
		}
	}
}

// covers reports whether a line shows a place, or the range that contains it.
func (l *treeLine) covers(p lineKey) bool {
	switch {
	case l.lineKey == p:
		return true
	case p.kind == turnLine || p.kind == rangeLine:
		return l.kind == rangeLine && !l.open && l.run == p.run && l.turn <= p.turn && p.turn < l.turn+l.size
	default:
		return false
	}
}

// outside returns the place that contains a place.
func (t *runTree) outside(p lineKey) (lineKey, bool) {
	switch {
	case p.run < 0 || int(p.run) >= len(t.runs) || p.kind == runLine && p.run == 0:
		return p, false
	case p.kind == runLine:
		r := &t.runs[p.run]
		return lineKey{kind: turnLine, run: r.parent(), turn: r.turn}, true
	case p.kind == plannedLine && int(p.turn) < len(t.runs[p.run].turns):
		// A planned task may have run.
		for _, at := range t.runs[p.run].turns[p.turn].runs {
			if t.runs[at].task == p.task {
				return lineKey{kind: runLine, run: at}, true
			}
		}
	}
	return lineKey{kind: runLine, run: p.run}, true
}

func (t *taskTree) line(l treeLine) {
	t.window.lines = append(t.window.lines, l)
}

func (t *taskTree) full() bool { return len(t.window.lines) >= maxTreeLines }

// opened reports whether a place is open.
func (t *taskTree) opened(p lineKey, usual bool) bool {
	if open, chosen := t.window.folds[p]; chosen {
		return open
	}
	switch t.window.all {
	case noneOpen:
		return p.kind == runLine && p.run == 0
	case allOpen:
		return p.kind != rangeLine
	default:
		return usual
	}
}

func (t *taskTree) listRun(at int32, depth int16, turned bool) {
	if t.full() {
		return
	}
	r := &t.runs[at]
	l := treeLine{lineKey: lineKey{kind: runLine, run: at}, depth: depth, turned: turned}
	l.folds = len(r.turns) > 0 || len(t.tasks.inside(r.task)) > 0
	l.open = l.folds && t.opened(l.lineKey, !turned || t.latest(at))
	t.line(l)
	if l.open {
		t.listInside(at, depth+1)
	}
}

// latest reports whether a run belongs to the last turn of its parent.
func (t *runTree) latest(at int32) bool {
	r := &t.runs[at]
	return r.parent() < 0 || int(r.turn) == len(t.runs[r.parent()].turns)-1
}

func (t *taskTree) listInside(at int32, depth int16) {
	r := &t.runs[at]
	switch n := len(r.turns); {
	case n == 0:
		t.listPlanned(lineKey{kind: plannedLine, run: at}, r.task, depth)
	case n == 1 && r.turns[0].iteration == "" && r.turns[0].attempt == "":
		t.listTurn(at, 0, depth)
	default:
		t.listTurns(at, depth)
	}
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
	l := treeLine{lineKey: lineKey{kind: rangeLine, run: at, turn: from, size: size}, depth: depth, folds: true}
	l.open = t.opened(l.lineKey, false)
	t.line(l)
	for part := from; l.open && part < from+size; part += size / 10 {
		if size == 10 {
			t.listOne(at, part, depth+1)
		} else {
			t.listRange(at, part, size/10, depth+1)
		}
	}
}

// listOne lists a turn; the only turn of a task shares the task's line.
func (t *taskTree) listOne(at, turn int32, depth int16) {
	if t.full() {
		return
	}
	r := &t.runs[at]
	if runs := r.turns[turn].runs; len(runs) == 1 && len(t.tasks.inside(r.task)) == 1 {
		t.listRun(runs[0], depth, true)
		return
	}
	l := treeLine{lineKey: lineKey{kind: turnLine, run: at, turn: turn}, depth: depth, folds: true}
	l.open = t.opened(l.lineKey, int(turn) == len(r.turns)-1)
	t.line(l)
	if l.open {
		t.listTurn(at, turn, depth+1)
	}
}

// listTurn lists the tasks of a turn in document order, then those that the document lacks.
func (t *taskTree) listTurn(at, turn int32, depth int16) {
	r := &t.runs[at]
	runs := r.turns[turn].runs
	inside := t.tasks.inside(r.task)
	runOf := map[int32]int32{}
	for _, run := range runs {
		runOf[t.runs[run].task] = run
	}
	for _, task := range inside {
		if run, ok := runOf[int32(task)]; ok {
			t.listRun(run, depth, false)
			delete(runOf, int32(task))
		} else {
			t.plan(lineKey{kind: plannedLine, run: at, turn: turn, task: int32(task)}, depth)
		}
	}
	for _, run := range slices.Sorted(maps.Values(runOf)) {
		t.listRun(run, depth, false)
	}
}

// listPlanned lists the tasks inside one that has not run.
func (t *taskTree) listPlanned(p lineKey, around int32, depth int16) {
	for _, task := range t.tasks.inside(around) {
		p.task = int32(task)
		t.plan(p, depth)
	}
}

// plan lists a task that has not run. Functions are not opened, since they may be recursive.
func (t *taskTree) plan(p lineKey, depth int16) {
	if t.full() {
		return
	}
	l := treeLine{lineKey: p, depth: depth}
	l.folds = len(t.tasks.inside(p.task)) > 0 && !t.tasks.calls(p.task)
	l.open = l.folds && t.opened(p, !t.over(p.run, p.turn))
	t.line(l)
	if l.open {
		t.listPlanned(p, p.task, depth+1)
	}
}

// over reports whether a turn is complete.
func (t *runTree) over(at, turn int32) bool {
	r := &t.runs[at]
	return r.State.Ended() || int(turn) < len(r.turns)-1
}

// Move moves the cursor by lines, and stops following.
func (t *taskTree) Move(lines int) { t.To(t.window.Cursor + lines) }

// To puts the cursor on a line.
func (t *taskTree) To(line int) {
	w := &t.window
	w.follow = false
	w.Cursor = max(0, min(line, len(w.lines)-1))
	if len(w.lines) > 0 {
		w.at = w.lines[w.Cursor].lineKey
	}
}

// Start goes to the first line.
func (t *taskTree) Start() { t.To(0) }

// End goes to the last line.
func (t *taskTree) End() { t.To(len(t.window.lines) - 1) }

// chosen returns the line of the cursor.
func (t *taskTree) chosen() treeLine { return canvas.At(t.window.lines, t.window.Cursor) }

// chosenRun returns the run at the cursor; see runOf.
func (t *taskTree) chosenRun() int32 { return t.runOf(t.chosen()) }

// runOf returns the run of a line, for a turn its last one; -1 if there is none.
func (t *taskTree) runOf(l treeLine) int32 {
	switch l.kind {
	case plannedLine:
		return -1
	case turnLine, rangeLine:
		return last(last(t.turnsAt(&l)).runs)
	default:
		return l.run
	}
}

// chosenTask returns the task at the cursor.
func (t *taskTree) chosenTask() *Task { return t.taskOf(t.chosen()) }

// taskOf returns the task of a line.
func (t *taskTree) taskOf(l treeLine) *Task {
	if l.kind == plannedLine {
		return t.tasks.at(l.task)
	}
	return t.tasks.at(t.runs[t.runOf(l)].task)
}

// unfold opens the line at the cursor, or enters it if it is open.
func (t *taskTree) unfold() {
	switch l := t.chosen(); {
	case l.folds && !l.open:
		t.set(l.lineKey, true)
	case l.folds:
		t.Move(1)
	}
}

// fold closes the line at the cursor, or leaves it if it is closed.
func (t *taskTree) fold() {
	l := t.chosen()
	if l.open {
		t.set(l.lineKey, false)
		return
	}
	lines := t.window.lines
	for i := t.window.Cursor - 1; i >= 0 && i < len(lines); i-- {
		if lines[i].depth < l.depth {
			t.To(i)
			return
		}
	}
}

// toggleFold toggles the line at the cursor.
func (t *taskTree) toggleFold() {
	if l := t.chosen(); l.folds {
		t.set(l.lineKey, !l.open)
	}
}

func (t *taskTree) set(p lineKey, open bool) {
	t.window.at, t.window.follow = p, false
	t.window.folds[p] = open
	t.changes++
	t.arrange()
}

// foldAll opens or closes everything except ranges of turns.
func (t *taskTree) foldAll(how fold) {
	clear(t.window.folds)
	t.window.all = how
	t.changes++
	t.arrange()
}

// setFollow makes the cursor follow new events, or stop following them.
func (t *taskTree) setFollow(on bool) {
	t.window.follow = on
	t.window.at.run = -1
	t.arrange()
}

// narrow shows only the runs that match the filter.
func (t *taskTree) narrow(typed string) {
	if typed == t.window.typed {
		return
	}
	t.window.typed, t.window.follow = typed, false
	if typed == "" {
		// After a search, show the lines around the match.
		t.reveal(t.chosenRun())
	}
	t.changes++
	t.arrange()
}

// reveal opens everything that contains a run.
func (t *taskTree) reveal(at int32) {
	folds := t.window.folds
	for at > 0 {
		turn, up := t.runs[at].turn, t.runs[at].parent()
		folds[lineKey{kind: runLine, run: up}] = true
		folds[lineKey{kind: turnLine, run: up, turn: turn}] = true
		for size := int32(10); int(size) <= len(t.runs[up].turns); size *= 10 {
			folds[lineKey{kind: rangeLine, run: up, turn: turn - turn%size, size: size}] = true
		}
		at = up
	}
}

// maxMatches is the maximum number of matches listed.
const maxMatches = 5000

// matches lists the runs whose task, state, turn or text contain all words.
func (t *taskTree) matches() {
	words := strings.Fields(strings.ToLower(t.window.typed))
	t.window.found = 0
	for at := 1; at < len(t.runs); at++ {
		r, task := &t.runs[at], t.tasks.at(t.runs[at].task)
		if !containsAll(words, task.Name, task.Kind, task.Detail, task.Ref, string(r.State), r.Iteration, r.Text) {
			continue
		}
		if t.window.found++; t.window.found <= maxMatches {
			t.line(treeLine{lineKey: lineKey{kind: runLine, run: int32(at)}, turned: true})
		}
	}
}
