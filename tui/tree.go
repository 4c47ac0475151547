package tui

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// taskTree shows the runs of an execution as lines, some of which can be folded.
type taskTree struct {
	runTree

	window treeWindow
}

// runTree holds the runs of the tasks of a document. It grows with the events of a history;
// adding an event takes the same time whatever the length of the history.
type runTree struct {
	tasks taskList
	x     *history.Execution
	runs  []taskRun // by index; the first one is the workflow itself

	current int32 // the run of the last event
	changes int   // counts the changes of what there is to show
}

// taskRun is one run of a task, with the turns of the tasks inside it.
type taskRun struct {
	*history.TaskRun

	task  int32
	turn  int32 // the turn of the parent that contains it
	turns []taskTurn
}

// parent returns the run that contains a run, -1 if it is the workflow itself.
func (r *taskRun) parent() int32 {
	if r.Parent == nil {
		return -1
	}
	return int32(r.Parent.Index)
}

// taskTurn is one pass through the tasks inside a run: an iteration, an attempt, or another
// visit after a jump back. Its iteration and attempt are relative to those of that run.
type taskTurn struct {
	iteration, attempt string
	runs               []int32
}

func newTaskTree() *taskTree {
	t := &taskTree{window: treeWindow{folds: map[lineKey]bool{}, List: canvas.List{Height: 1}, follow: true, made: -1}}
	t.reset()
	return t
}

// reset discards the runs. What the user has folded stays.
func (t *runTree) reset() {
	t.x = history.NewExecution()
	t.runs = []taskRun{{TaskRun: t.x.Runs[0], task: workflowTask}}
	t.current = 0
	t.changes++
}

// read sets the document. Tasks that occur only in the history stay.
func (t *runTree) read(d *Document) {
	if d == nil || t.tasks.of == d {
		return
	}
	old := t.tasks.of
	t.tasks.of = d
	if old != nil && old.Text == d.Text && len(old.Tasks) == len(d.Tasks) {
		return // it was only read again
	}
	t.tasks = newTaskList(d)
	t.reset()
}

// add adds the events that follow the last one.
func (t *runTree) add(events []Event) {
	for _, e := range events {
		if e.Version <= t.x.Version {
			continue
		}
		run, _ := t.x.Add(e)
		at := int32(run.Index)
		if at > 0 {
			t.current = at
		}
		if int(at) == len(t.runs) {
			t.join(run)
		}
	}
}

// failed reports whether a run of a turn has failed.
func (t *runTree) failed(turn taskTurn) bool {
	return slices.ContainsFunc(turn.runs, func(at int32) bool { return t.runs[at].State == Faulted })
}

// workflowTask stands for the workflow among the tasks.
const workflowTask int32 = -1

// taskList lists the tasks of a document, and others found in a history.
type taskList struct {
	of    *Document
	tasks []Task
	roots []int
	byRef map[string]int32
}

func newTaskList(d *Document) taskList {
	l := taskList{of: d, tasks: slices.Clone(d.Tasks), roots: slices.Clone(d.Roots), byRef: map[string]int32{}}
	for i, t := range l.tasks {
		l.byRef[t.Ref] = int32(i)
	}
	return l
}

// at returns a task; that of the workflow has no name.
func (l *taskList) at(task int32) *Task {
	if task < 0 || int(task) >= len(l.tasks) {
		return &Task{}
	}
	return &l.tasks[task]
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

// find returns the task with a reference. It adds a task that the document lacks to the task
// around it.
func (l *taskList) find(ref string, around int32) int32 {
	if at, ok := l.byRef[ref]; ok {
		return at
	}
	if l.byRef == nil {
		l.byRef = map[string]int32{}
	}
	at := len(l.tasks)
	l.tasks = append(l.tasks, Task{Ref: ref, Name: history.TaskName(ref)})
	l.byRef[ref] = int32(at)
	if around == workflowTask {
		l.roots = append(l.roots, at)
	} else {
		l.tasks[around].Children = append(slices.Clip(l.tasks[around].Children), at)
	}
	return int32(at)
}

// caught reports whether a task of a try belongs to its error handler.
func caught(task, around *Task) bool {
	return strings.HasPrefix(task.Ref, around.Ref+"/catch/")
}

// recent is the maximum number of turns of a task that may be in progress.
const recent = 8

// join adds a new run to an existing or a new turn of the run around it.
func (t *runTree) join(run *history.TaskRun) {
	at := int32(run.Index)
	p := &t.runs[run.Parent.Index]
	r := taskRun{TaskRun: run, task: t.tasks.find(run.Ref, p.task), turn: -1}
	iteration, attempt := run.Turn()
	for i := len(p.turns) - 1; i >= max(0, len(p.turns)-recent) && r.turn < 0; i-- {
		if p.turns[i].iteration == iteration && p.turns[i].attempt == attempt {
			r.turn = int32(i)
		}
	}
	if r.turn < 0 {
		r.turn = int32(len(p.turns))
		p.turns = append(p.turns, taskTurn{iteration: iteration, attempt: attempt})
	}
	p.turns[r.turn].runs = append(p.turns[r.turn].runs, at)
	t.runs = append(t.runs, r)
	t.changes++
}
