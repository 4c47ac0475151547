package tui

import "strings"

// move moves the cursor by lines, and stops following.
func (t *taskTree) move(lines int) { t.to(t.window.cursor + lines) }

// to puts the cursor on a line.
func (t *taskTree) to(line int) {
	w := &t.window
	w.follow = false
	w.cursor = max(0, min(line, len(w.lines)-1))
	if len(w.lines) > 0 {
		w.at = w.lines[w.cursor].treePlace
	}
}

// end goes to the last line.
func (t *taskTree) end() { t.to(len(t.window.lines) - 1) }

// chosen returns the line of the cursor.
func (t *taskTree) chosen() treeLine {
	w := &t.window
	if w.cursor >= len(w.lines) {
		return treeLine{}
	}
	return w.lines[w.cursor]
}

// chosenRun returns the run at the cursor, for a turn its last one; -1 if there is none.
func (t *taskTree) chosenRun() int32 {
	l := t.chosen()
	switch l.kind {
	case plannedPlace:
		return -1
	case turnPlace, rangePlace:
		turns := t.runs[l.run].turns
		runs := turns[min(int(l.turn+max(1, l.size)), len(turns))-1].runs
		return runs[len(runs)-1]
	default:
		return l.run
	}
}

// chosenTask returns the task at the cursor.
func (t *taskTree) chosenTask() *Task {
	if l := t.chosen(); l.kind == plannedPlace {
		return t.tasks.at(l.task)
	}
	return t.tasks.at(t.runs[t.chosenRun()].key.task)
}

// unfold opens the line at the cursor, or enters it if it is open.
func (t *taskTree) unfold() {
	switch l := t.chosen(); {
	case l.folds && !l.open:
		t.set(l.treePlace, true)
	case l.folds:
		t.move(1)
	}
}

// fold closes the line at the cursor, or leaves it if it is closed.
func (t *taskTree) fold() {
	l := t.chosen()
	if l.open {
		t.set(l.treePlace, false)
		return
	}
	lines := t.window.lines
	for i := t.window.cursor - 1; i >= 0 && i < len(lines); i-- {
		if lines[i].depth < l.depth {
			t.to(i)
			return
		}
	}
}

// turnFold toggles the line at the cursor.
func (t *taskTree) turnFold() {
	if l := t.chosen(); l.folds {
		t.set(l.treePlace, !l.open)
	}
}

func (t *taskTree) set(p treePlace, open bool) {
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

// setFollow lets the cursor follow what happens, or stops that.
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
		turn, up := t.runs[at].turn, t.runs[at].parent
		folds[treePlace{kind: runPlace, run: up}] = true
		folds[treePlace{kind: turnPlace, run: up, turn: turn}] = true
		for size := int32(10); int(size) <= len(t.runs[up].turns); size *= 10 {
			folds[treePlace{kind: rangePlace, run: up, turn: turn - turn%size, size: size}] = true
		}
		at = up
	}
}

// mostMatches is the maximum number of matches listed.
const mostMatches = 5000

// matches lists the runs whose task, state, turn or text contain all words.
func (t *taskTree) matches() {
	words := strings.Fields(strings.ToLower(t.window.typed))
	t.window.found = 0
	left := make([][]string, len(t.tasks.tasks)) // words that the task itself does not contain
	for i, task := range t.tasks.tasks {
		text := strings.ToLower(task.Name + "\n" + task.Kind + " " + task.Detail + "\n" + task.Ref)
		for _, word := range words {
			if !strings.Contains(text, word) {
				left[i] = append(left[i], word)
			}
		}
	}
	for at := 1; at < len(t.runs); at++ {
		r := &t.runs[at]
		if !r.has(left[r.key.task]) {
			continue
		}
		if t.window.found++; t.window.found <= mostMatches {
			t.line(treeLine{treePlace: treePlace{kind: runPlace, run: int32(at)}, turned: true})
		}
	}
}

func (r *taskRun) has(words []string) bool {
	for _, word := range words {
		if !strings.Contains(string(r.state), word) && !strings.Contains(r.key.iteration, word) && !contains(r.text, word) {
			return false
		}
	}
	return true
}
