package tui

import (
	"cmp"
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// treeOptions hold what a tree shows in addition to its own data.
type treeOptions struct {
	top      Row               // the workflow
	timers   map[string]Row    // by the string form of the task run
	children map[string]string // the executions of runs that have one of their own, likewise
	breaks   map[string]bool   // the references of tasks with a breakpoint
	now      time.Time
	focus    bool
}

// draw draws the visible lines, one for each task, and one about them.
func (t *taskTree) draw(a canvas.Area, theme canvas.Theme, options treeOptions) {
	w := &t.window
	t.scroll(a.H)
	w.Rows(a, len(w.lines), cursorStyle(options.focus), func(row canvas.Area, at int) { t.drawLine(row, theme, &w.lines[at], &options) })
	if len(w.lines) == 0 {
		a.Put(2, 1, canvas.Faint, canvas.Clip("nothing matches "+w.typed+" (esc: all)", a.W-2, theme.More()))
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

func (t *taskTree) drawLine(a canvas.Area, theme canvas.Theme, line *treeLine, options *treeOptions) {
	text := t.text(theme, line, options)
	width := a.W
	if width >= 36 {
		width -= drawState(a, &text) + 1
	}
	a = a.Part(0, 0, width, 1)
	x := t.drawName(a, theme, line, &text)
	x = theme.Rest(a, x+2, text.noted, text.notes)
	if text.notes == "" {
		x -= 2
	}
	x = theme.Rest(a, x+2, canvas.Faint, text.detail)
	theme.Rest(a, x+2, canvas.Good, text.after)
}

// drawName draws the name of a line and its breakpoint, and returns where it ends.
func (t *taskTree) drawName(a canvas.Area, theme canvas.Theme, line *treeLine, text *treeText) int {
	x := min(2*int(line.depth), max(a.W-24, a.W/3))
	x = a.Put(x, 0, canvas.Faint, foldSign(theme, line))
	mark := " "
	if text.stops {
		mark = theme.Pick("●", "*")
	}
	x = a.Put(x, 0, canvas.Bad, mark)
	x = a.Put(x, 0, text.sign.style, text.sign.glyph+" ")
	style := canvas.Normal
	if line.kind == plannedLine {
		style = canvas.Faint
	} else if line.run == t.current && line.kind == runLine {
		style = canvas.Strong
	}
	return theme.Rest(a, x, style, text.name)
}

// drawState draws the state and the time at the right, and returns their width.
func drawState(a canvas.Area, text *treeText) int {
	const wordWidth, timeWidth = 10, 11
	if a.W < 60 {
		a.Right(0, text.sign.style, text.word)
		return canvas.Width(text.word)
	}
	a.Right(0, canvas.Normal, text.time)
	a.Put(a.W-wordWidth-timeWidth, 0, text.sign.style, text.word)
	return wordWidth + timeWidth
}

func foldSign(theme canvas.Theme, line *treeLine) string {
	switch {
	case !line.folds:
		return " "
	case line.open:
		return theme.Pick("▿", "-")
	default:
		return theme.Pick("▹", "+")
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

func (t *taskTree) text(theme canvas.Theme, line *treeLine, options *treeOptions) (text treeText) {
	switch line.kind {
	case plannedLine:
		text = t.plannedText(theme, line)
	case turnLine:
		text = t.turnText(theme, line, options)
	case rangeLine:
		text = t.rangeText(theme, line)
	default:
		text = t.runText(theme, line, options)
	}
	text.stops = options.breaks[t.taskOf(*line).Ref]
	return text
}

func (t *taskTree) plannedText(theme canvas.Theme, line *treeLine) treeText {
	task := t.tasks.at(line.task)
	text := treeText{name: task.Name, detail: t.detail(task, t.runs[line.run].task), word: "pending", sign: signOf(theme, Pending)}
	if t.over(line.run, line.turn) {
		text.word, text.sign = "not run", signOf(theme, "")
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

func (t *taskTree) runText(theme canvas.Theme, line *treeLine, options *treeOptions) treeText {
	r := &t.runs[line.run]
	if line.run == 0 {
		return t.topText(theme, r, options)
	}
	task := t.tasks.at(r.task)
	around := t.runs[r.parent()].task
	text := treeText{name: task.Name, detail: t.detail(task, around), word: string(r.State), sign: signOf(theme, r.State)}
	if r.Call != "" {
		text.detail = "call " + r.Call
	}
	text.time = t.timeOf(r, options)
	if line.turned {
		text.name = t.turnedName(r, task)
	}
	if r.State == Faulted || r.State == Cancelled {
		text.notes, text.noted = r.Text, text.sign.style
	} else {
		text.after = r.Text
	}
	if len(options.children) > 0 && options.children[r.String()] != "" {
		text.name += theme.Pick(" ⇒", " =>")
	}
	if len(r.turns) > 1 {
		if text.notes == "" {
			text.noted = canvas.Accent
		}
		turns := history.Count(len(r.turns), r.turnWord()) + t.failedOf(r.turns)
		text.notes = strings.TrimSpace(turns + "  " + text.notes)
	}
	return text
}

// nameOf returns the shortest distinguishing name of a run.
func (t *runTree) nameOf(r *taskRun) string {
	return history.Run(t.tasks.at(r.task).Name, r.Iteration, r.Attempt)
}

func (t *runTree) topText(theme canvas.Theme, r *taskRun, options *treeOptions) treeText {
	state := cmp.Or(options.top.State, r.State)
	text := treeText{name: options.top.Workflow, word: string(state), sign: signOf(theme, state), after: r.Text}
	text.name = cmp.Or(text.name, "workflow")
	if state == Faulted || state == Cancelled || state == Suspended {
		text.notes, text.after, text.noted = r.Text, "", text.sign.style
	}
	ended := options.top.Until
	if ended.IsZero() {
		ended = r.Ended.At
	}
	switch {
	case r.Began.At.IsZero():
	case state.Ended() && !ended.IsZero():
		text.time = lastedFor(r.Began.At, ended)
	default:
		text.time = since(options.now, r.Began.At)
	}
	return text
}

// timeOf returns how long something took, has been running, or still has to wait.
func (t *runTree) timeOf(r *taskRun, options *treeOptions) string {
	if len(options.timers) > 0 && (r.State == Waiting || r.State == Retrying) {
		// A timer may have been moved, which no event reports.
		if timer, ok := options.timers[r.String()]; ok {
			return due(options.now, timer)
		}
	}
	switch {
	case r.Began.At.IsZero() || r.State == Skipped:
		return ""
	case r.State.Ended():
		return lastedFor(r.Began.At, r.Ended.At)
	case !r.Until.IsZero():
		return countdown(options.now, r.Until)
	default:
		return since(options.now, r.Began.At)
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

// failedOf says how many of the turns failed.
func (t *runTree) failedOf(turns []taskTurn) string {
	n := 0
	for _, turn := range turns {
		n += truth(t.failed(turn))
	}
	if n == 0 {
		return ""
	}
	return ", " + history.Number(n) + " failed"
}

// turnState returns the state of a turn.
func (t *runTree) turnState(r *taskRun, at int) State {
	switch {
	case t.failed(r.turns[at]):
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

func (t *runTree) turnText(theme canvas.Theme, line *treeLine, options *treeOptions) treeText {
	r := &t.runs[line.run]
	state := t.turnState(r, int(line.turn))
	text := treeText{name: r.turnName(int(line.turn)), word: string(state), sign: signOf(theme, state)}
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
		text.time = since(options.now, began)
	}
	return text
}

func (t *runTree) rangeText(theme canvas.Theme, line *treeLine) treeText {
	r := &t.runs[line.run]
	from, to := int(line.turn), int(line.turn+line.size)
	text := treeText{word: string(Completed), sign: signOf(theme, Completed)}
	text.name = r.turnName(from) + theme.Pick(" – ", " - ") + r.turnName(to-1)
	text.detail = history.Count(to-from, r.turnWord())
	if failed := t.failedOf(r.turns[from:to]); failed != "" {
		text.notes, text.noted, text.word, text.sign = strings.TrimPrefix(failed, ", "), canvas.Bad, string(Faulted), signOf(theme, Faulted)
	}
	if ended := t.runs[last(r.turns[to-1].runs)].Ended.At; !ended.IsZero() {
		text.time = lastedFor(t.runs[r.turns[from].runs[0]].Began.At, ended)
	}
	return text
}
