package tui

import "slices"

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
