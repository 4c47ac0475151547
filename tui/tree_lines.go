package tui

import "slices"

// treePlace identifies a line of the tree.
type treePlace struct {
	kind placeKind
	run  int32 // the run; otherwise the run that contains the line
	turn int32 // the first one of a range
	size int32 // of a range
	task int32 // one that has not run
}

type placeKind uint8

const (
	runPlace placeKind = iota
	turnPlace
	rangePlace
	plannedPlace
)

// treeLine is a visible line.
type treeLine struct {
	treePlace

	depth  int16
	folds  bool // it contains something
	open   bool
	turned bool // it stands for its turn
}

// treeWindow is the visible part of a tree.
type treeWindow struct {
	lines []treeLine
	made  int // the number of changes it reflects

	folds  map[treePlace]bool // chosen by the user: true is open
	all    fold               // for everything else
	runOf  map[int32]int32
	typed  string // the filter
	found  int    // number of runs that match
	follow bool

	cursor, offset, height int
	at                     treePlace // of the cursor
}

// fold tells how much is open.
type fold uint8

const (
	someOpen fold = iota // the interesting parts
	allOpen
	noneOpen
)

func (w *treeWindow) init() {
	w.folds, w.runOf, w.height, w.follow, w.made = map[treePlace]bool{}, map[int32]int32{}, 1, true, -1
}

// mostTreeLines is the maximum number of lines of a tree.
const mostTreeLines = 20_000

// arrange rebuilds the lines if something has changed. The cursor stays on its line, or moves to
// the line that the former one is folded into.
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
		w.at = treePlace{kind: runPlace, run: t.current}
		t.locate()
	}
}

// locate finds the line of the cursor.
func (t *taskTree) locate() {
	w := &t.window
	for at := w.at; ; {
		if i := slices.IndexFunc(w.lines, func(l treeLine) bool { return l.covers(at) }); i >= 0 {
			w.cursor = i
			return
		}
		var ok bool
		if at, ok = t.outside(at); !ok {
			w.cursor = max(0, min(w.cursor, len(w.lines)-1))
			if len(w.lines) > 0 {
				w.at = w.lines[w.cursor].treePlace
			}
			return
		}
	}
}

// covers reports whether a line shows a place, or the range that contains it.
func (l *treeLine) covers(p treePlace) bool {
	switch {
	case l.treePlace == p:
		return true
	case p.kind == turnPlace || p.kind == rangePlace:
		return l.kind == rangePlace && !l.open && l.run == p.run && l.turn <= p.turn && p.turn < l.turn+l.size
	default:
		return false
	}
}

// outside returns what contains a place.
func (t *taskTree) outside(p treePlace) (treePlace, bool) {
	switch {
	case p.run < 0 || int(p.run) >= len(t.runs) || p.kind == runPlace && p.run == 0:
		return p, false
	case p.kind == runPlace:
		r := &t.runs[p.run]
		return treePlace{kind: turnPlace, run: r.parent, turn: r.turn}, true
	case p.kind == plannedPlace && int(p.turn) < len(t.runs[p.run].turns):
		// A planned task may have run.
		for _, at := range t.runs[p.run].turns[p.turn].runs {
			if t.runs[at].key.task == p.task {
				return treePlace{kind: runPlace, run: at}, true
			}
		}
	}
	return treePlace{kind: runPlace, run: p.run}, true
}

func (t *taskTree) line(l treeLine) {
	t.window.lines = append(t.window.lines, l)
}

func (t *taskTree) full() bool { return len(t.window.lines) >= mostTreeLines }

// opened reports whether a place is open.
func (t *taskTree) opened(p treePlace, usual bool) bool {
	if open, chosen := t.window.folds[p]; chosen {
		return open
	}
	switch t.window.all {
	case noneOpen:
		return p.kind == runPlace && p.run == 0
	case allOpen:
		return p.kind != rangePlace
	default:
		return usual
	}
}

func (t *taskTree) listRun(at int32, depth int16, turned bool) {
	if t.full() {
		return
	}
	r := &t.runs[at]
	l := treeLine{treePlace: treePlace{kind: runPlace, run: at}, depth: depth, turned: turned}
	l.folds = len(r.turns) > 0 || len(t.tasks.inside(r.key.task)) > 0
	l.open = l.folds && t.opened(l.treePlace, !turned || t.latest(at))
	t.line(l)
	if l.open {
		t.listInside(at, depth+1)
	}
}

// latest reports whether a run belongs to the last turn of its parent.
func (t *taskTree) latest(at int32) bool {
	r := &t.runs[at]
	return r.parent < 0 || int(r.turn) == len(t.runs[r.parent].turns)-1
}

func (t *taskTree) listInside(at int32, depth int16) {
	r := &t.runs[at]
	switch n := len(r.turns); {
	case n == 0:
		t.listPlanned(treePlace{kind: plannedPlace, run: at}, r.key.task, depth)
	case n == 1 && r.turns[0].iteration == "" && r.turns[0].attempt == "":
		t.listTurn(at, 0, depth)
	default:
		t.listTurns(at, depth)
	}
}

// listPlanned lists the tasks inside one that has not run.
func (t *taskTree) listPlanned(p treePlace, around int32, depth int16) {
	for _, task := range t.tasks.inside(around) {
		p.task = int32(task)
		t.plan(p, depth)
	}
}

// plan lists a task that has not run. Functions are not opened, since they may be recursive.
func (t *taskTree) plan(p treePlace, depth int16) {
	if t.full() {
		return
	}
	l := treeLine{treePlace: p, depth: depth}
	l.folds = len(t.tasks.inside(p.task)) > 0 && !t.tasks.calls(p.task)
	l.open = l.folds && t.opened(p, !t.over(p.run, p.turn))
	t.line(l)
	if l.open {
		t.listPlanned(p, p.task, depth+1)
	}
}

// over reports whether a turn is complete.
func (t *taskTree) over(at, turn int32) bool {
	r := &t.runs[at]
	return r.state.Ended() || int(turn) < len(r.turns)-1
}
