package tui

import (
	"slices"
	"strings"
)

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
