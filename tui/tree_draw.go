package tui

import (
	"cmp"
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// treeLook holds what a tree shows in addition to its own data.
type treeLook struct {
	top    Row               // the workflow
	timers map[string]Row    // by the string form of the task run
	child  func(string) bool // whether a run has an execution of its own
	breaks map[string]bool   // the references of tasks with a breakpoint
	now    time.Time
	focus  bool
}

// draw draws the visible lines, one for each task, and one about them.
func (t *taskTree) draw(a canvas.Area, l canvas.Look, how treeLook) {
	w := &t.window
	t.scroll(a.H)
	w.Rows(a, len(w.lines), cursorStyle(how.focus), func(row canvas.Area, at int) { t.drawLine(row, l, &w.lines[at], &how) })
	if len(w.lines) == 0 {
		a.Put(2, 1, canvas.Faint, canvas.Clip("nothing matches "+w.typed+" (esc: all)", a.W-2, l.More()))
	}
}

// scroll keeps the cursor inside a window with this height.
func (t *taskTree) scroll(height int) {
	w := &t.window
	w.Height = max(1, height)
	t.arrange()
	margin := min(2, w.Height/4) // lines before and after the cursor
	w.Offset = max(w.Cursor-w.Height+1+margin, min(w.Offset, w.Cursor-margin))
	w.Offset = max(0, min(w.Offset, len(w.lines)-w.Height))
}

// cursorStyle returns the style of the row at the cursor, stronger with the focus.
func cursorStyle(focus bool) canvas.Style {
	if focus {
		return canvas.Selected
	}
	return canvas.Bar
}

func (t *taskTree) drawLine(a canvas.Area, l canvas.Look, line *treeLine, how *treeLook) {
	text := t.text(l, line, how)
	avail := a.W
	if avail >= 36 {
		avail -= t.drawState(a, l, &text) + 1
	}
	a = a.Part(0, 0, avail, 1)
	x := t.drawName(a, l, line, &text)
	x = l.Rest(a, x+2, text.noted, text.notes)
	if text.notes == "" {
		x -= 2
	}
	x = l.Rest(a, x+2, canvas.Faint, text.detail)
	l.Rest(a, x+2, canvas.Good, text.after)
}

// drawName draws the name of a line and its breakpoint, and returns where it ends.
func (t *taskTree) drawName(a canvas.Area, l canvas.Look, line *treeLine, text *treeText) int {
	x := min(2*int(line.depth), max(a.W-24, a.W/3))
	x = a.Put(x, 0, canvas.Faint, t.foldSign(l, line))
	mark := " "
	if text.stops {
		mark = l.Pick("●", "*")
	}
	x = a.Put(x, 0, canvas.Bad, mark)
	x = a.Put(x, 0, text.sign.style, text.sign.glyph+" ")
	how := canvas.Normal
	if line.kind == plannedLine {
		how = canvas.Faint
	} else if line.run == t.current && line.kind == runLine {
		how = canvas.Strong
	}
	return l.Rest(a, x, how, text.name)
}

// drawState draws the state and the time at the right, and returns their width.
func (*taskTree) drawState(a canvas.Area, _ canvas.Look, text *treeText) int {
	const wordWidth, timeWidth = 10, 11
	if a.W < 60 {
		a.Right(0, text.sign.style, text.word)
		return canvas.Width(text.word)
	}
	a.Right(0, canvas.Normal, text.time)
	a.Put(a.W-wordWidth-timeWidth, 0, text.sign.style, text.word)
	return wordWidth + timeWidth
}

func (*taskTree) foldSign(l canvas.Look, line *treeLine) string {
	switch {
	case !line.folds:
		return " "
	case line.open:
		return l.Pick("▿", "-")
	default:
		return l.Pick("▹", "+")
	}
}

// treeText is the text of a line.
type treeText struct {
	stops  bool // a breakpoint
	sign   sign
	name   string
	detail string
	after  string // its output
	notes  string // what failed, or how much is folded
	noted  canvas.Style
	word   string
	time   string
}

func (t *taskTree) text(l canvas.Look, line *treeLine, how *treeLook) (text treeText) {
	switch line.kind {
	case plannedLine:
		text = t.plannedText(l, line)
	case turnLine:
		text = t.turnText(l, line, how)
	case rangeLine:
		text = t.rangeText(l, line, how)
	default:
		text = t.runText(l, line, how)
	}
	text.stops = how.breaks[t.taskOf(*line).Ref]
	return text
}

func (t *taskTree) plannedText(l canvas.Look, line *treeLine) treeText {
	task := t.tasks.at(line.task)
	text := treeText{name: task.Name, detail: t.detail(task, t.runs[line.run].task), word: "pending", sign: signOf(l, Pending)}
	if t.over(line.run, line.turn) {
		text.word, text.sign = "not run", signOf(l, "")
		text.sign.style = canvas.Faint
	}
	return text
}

// detail describes a task, and whether it handles errors.
func (t *runTree) detail(task *Task, around int32) string {
	text := strings.TrimSpace(task.Kind + " " + task.Detail)
	if around >= 0 && caught(task, t.tasks.at(around)) {
		return "on error: " + text
	}
	return text
}

func (t *taskTree) runText(l canvas.Look, line *treeLine, how *treeLook) treeText {
	r := &t.runs[line.run]
	if line.run == 0 {
		return t.topText(l, r, how)
	}
	task := t.tasks.at(r.task)
	around := t.runs[r.parent()].task
	text := treeText{name: task.Name, detail: t.detail(task, around), word: string(r.State), sign: signOf(l, r.State)}
	if r.Call != "" {
		text.detail = "call " + r.Call
	}
	text.time = t.timeOf(r, how)
	if line.turned {
		text.name = t.turnedName(r, task)
	}
	if r.State == Faulted || r.State == Cancelled {
		text.notes, text.noted = r.Text, text.sign.style
	} else {
		text.after = r.Text
	}
	if how.child != nil && how.child(r.String()) {
		text.name += l.Pick(" ⇒", " =>")
	}
	if len(r.turns) > 1 {
		if text.notes == "" {
			text.noted = canvas.Accent
		}
		text.notes = strings.TrimSpace(t.turnCount(r) + "  " + text.notes)
	}
	return text
}

// nameOf returns the shortest distinguishing name of a run.
func (t *runTree) nameOf(r *taskRun) string {
	return history.Run(t.tasks.at(r.task).Name, r.Iteration, r.Attempt)
}

func (t *runTree) topText(l canvas.Look, r *taskRun, how *treeLook) treeText {
	state := cmp.Or(how.top.State, r.State)
	text := treeText{name: how.top.Workflow, word: string(state), sign: signOf(l, state), after: r.Text}
	text.name = cmp.Or(text.name, "workflow")
	if state != Completed && state != Running {
		text.notes, text.after, text.noted = r.Text, "", text.sign.style
	}
	ended := how.top.Until
	if ended.IsZero() {
		ended = r.Ended.At
	}
	switch {
	case r.Began.At.IsZero():
	case state.Ended() && !ended.IsZero():
		text.time = lastedFor(r.Began.At, ended)
	default:
		text.time = since(how.now, r.Began.At)
	}
	return text
}

// timeOf returns how long something took, has been running, or still has to wait.
func (t *runTree) timeOf(r *taskRun, how *treeLook) string {
	if len(how.timers) > 0 && (r.State == Waiting || r.State == Retrying) {
		// A timer may have been moved, which no event reports.
		if timer, ok := how.timers[r.String()]; ok {
			return due(how.now, timer)
		}
	}
	switch {
	case r.Began.At.IsZero() || r.State == Skipped:
		return ""
	case r.State.Ended():
		return lastedFor(r.Began.At, r.Ended.At)
	case !r.Until.IsZero():
		return countdown(how.now, r.Until)
	default:
		return since(how.now, r.Began.At)
	}
}

// lastedFor returns how long something took; on a virtual clock that is often no time.
func lastedFor(began, ended time.Time) string {
	if !ended.After(began) {
		return "0s"
	}
	return history.Duration(ended.Sub(began))
}

// turnedName names a run that stands for its turn.
func (t *taskTree) turnedName(r *taskRun, task *Task) string {
	if t.window.typed != "" {
		return t.nameOf(r)
	}
	p := &t.runs[r.parent()]
	label := p.turnName(int(r.turn))
	if strings.HasPrefix(label, "[") {
		return task.Name + label
	}
	return task.Name + " " + label
}

// turnName names a turn for display.
func (r *taskRun) turnName(at int) string {
	turn, last := &r.turns[at], &r.turns[len(r.turns)-1]
	index, attempt := history.Index(turn.iteration), history.Attempt(turn.attempt)
	switch {
	case attempt == "" && last.attempt != "" && index == "":
		attempt = "attempt 1"
	case index == "" && attempt == "":
		index = "0"
	}
	if index != "" {
		index = "[" + index + "]"
	}
	return strings.TrimSpace(index + " " + attempt)
}

// turnCount describes how many turns there are, and how many failed.
func (t *runTree) turnCount(r *taskRun) string {
	return history.Count(len(r.turns), r.turnWord()) + r.failedOf(0, len(r.turns))
}

// turnWord returns the word for the turns of a task.
func (r *taskRun) turnWord() string {
	switch last := &r.turns[len(r.turns)-1]; {
	case last.iteration != "" && last.iteration[0] != 'r':
		return "iteration"
	case last.attempt != "":
		return "attempt"
	default:
		return "visit"
	}
}

// failedOf says how many turns in a range failed.
func (r *taskRun) failedOf(from, to int) string {
	n := 0
	for i := from; i < to; i++ {
		n += truth(r.turns[i].failed)
	}
	if n == 0 {
		return ""
	}
	return ", " + history.Number(n) + " failed"
}

// turnState returns the state of a turn.
func (t *runTree) turnState(r *taskRun, at int) State {
	switch {
	case r.turns[at].failed:
		return Faulted
	case at < len(r.turns)-1:
		return Completed
	case !r.State.Ended():
		if state := t.runs[last(r.turns[at].runs)].State; state == Waiting || state == Retrying {
			return state
		}
		return Running
	case r.State == Faulted:
		return Completed
	default:
		return r.State
	}
}

func (t *runTree) turnText(l canvas.Look, line *treeLine, how *treeLook) treeText {
	r := &t.runs[line.run]
	state := t.turnState(r, int(line.turn))
	text := treeText{name: r.turnName(int(line.turn)), word: string(state), sign: signOf(l, state)}
	runs := r.turns[line.turn].runs
	text.detail = history.Count(len(runs), "task")
	began, ended := t.runs[runs[0]].Began.At, time.Time{}
	for _, at := range runs {
		if t.runs[at].Ended.At.After(ended) {
			ended = t.runs[at].Ended.At
		}
		if t.runs[at].State == Faulted {
			text.notes, text.noted = t.runs[at].Text, canvas.Bad
		}
	}
	if state.Ended() && !ended.IsZero() {
		text.time = lastedFor(began, ended)
	} else {
		text.time = since(how.now, began)
	}
	return text
}

func (t *runTree) rangeText(l canvas.Look, line *treeLine, _ *treeLook) treeText {
	r := &t.runs[line.run]
	from, to := int(line.turn), int(line.turn+line.size)
	text := treeText{word: string(Completed), sign: signOf(l, Completed)}
	text.name = r.turnName(from) + l.Pick(" – ", " - ") + r.turnName(to-1)
	text.detail = history.Count(to-from, r.turnWord())
	if failed := r.failedOf(from, to); failed != "" {
		text.notes, text.noted, text.word, text.sign = strings.TrimPrefix(failed, ", "), canvas.Bad, string(Faulted), signOf(l, Faulted)
	}
	if ended := t.runs[last(r.turns[to-1].runs)].Ended.At; !ended.IsZero() {
		text.time = lastedFor(t.runs[r.turns[from].runs[0]].Began.At, ended)
	}
	return text
}
