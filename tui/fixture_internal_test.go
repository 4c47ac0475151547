package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui/canvas"
)

// start is when the executions of the tests begin.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// compare compares a picture of a component with its golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "components", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got, -update rewrites it):\n%s", file, diff)
	}
}

// picture returns a canvas without its colours; rows at a cursor begin with » if they have the
// focus, otherwise with ›.
func picture(c *canvas.Canvas) string {
	var b strings.Builder
	for line := range strings.SplitSeq(c.Text(canvas.Theme{Palette: canvas.Palette{canvas.Bar: "44"}}), "\n") {
		mark := " "
		switch {
		case strings.Contains(line, ";7m"):
			mark = "»"
		case strings.Contains(line, ";44"):
			mark = "›"
		}
		b.WriteString(strings.TrimRight(mark+colourCodes.ReplaceAllString(line, ""), " ") + "\n")
	}
	return b.String()
}

// story builds the events of a history.
type story struct {
	events []Event
	at     time.Time
}

func newStory() *story {
	s := &story{at: start}
	s.tell(Event{Type: "execution.started", State: Running})
	return s
}

func (s *story) tell(e Event) *story {
	e.Version, e.At = int64(len(s.events)+1), s.at
	if e.Ref != "" {
		e.Task = event.Run{Ref: e.Ref, Iteration: e.Iteration, Attempt: e.Attempt}.String()
	}
	s.events = append(s.events, e)
	return s
}

// runEvent returns an event of a run, given as the engine writes it.
func runEvent(run string) Event {
	r := event.ParseRun(run)
	return Event{Ref: r.Ref, Iteration: r.Iteration, Attempt: r.Attempt}
}

func (s *story) begin(run string) *story {
	e := runEvent(run)
	e.Type, e.State = "task.requested", Running
	return s.tell(e)
}

func (s *story) end(run string, state State, text string) *story {
	e := runEvent(run)
	e.Type, e.State, e.Text = "task.completed", state, text
	return s.tell(e)
}

func (s *story) wait(run string, state State, d time.Duration) *story {
	e := runEvent(run)
	e.Type, e.State, e.Until = "timer.scheduled", state, s.at.Add(d)
	return s.tell(e)
}

func (s *story) pass(d time.Duration) *story {
	s.at = s.at.Add(d)
	return s
}

func (s *story) done(run string) *story {
	return s.begin(run).pass(20*time.Millisecond).end(run, Completed, "")
}

// documentOf builds a document from lines: two spaces for each level, then the name, the kind and
// the detail.
func documentOf(text string) *Document {
	d := &Document{Name: "test", Text: "document:\n  dsl: '1.0.3'\n  name: test\ndo:\n"}
	var around []int
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		trimmed := strings.TrimLeft(line, " ")
		depth := (len(line) - len(trimmed)) / 2
		part, trimmed := "do", strings.TrimSpace(trimmed)
		if rest, ok := strings.CutPrefix(trimmed, "!"); ok {
			part, trimmed = "catch/do", rest
		}
		words := strings.SplitN(trimmed, " ", 3)
		me := len(d.Tasks)
		around = append(around[:depth], me)
		ref := ""
		if depth > 0 {
			up := &d.Tasks[around[depth-1]]
			ref = up.Ref
			up.Children = append(up.Children, me)
			if up.Kind == "fork" {
				part = "fork/branches"
			} else if up.Kind == "try" && part == "do" {
				part = "try"
			}
		} else {
			d.Roots = append(d.Roots, me)
		}
		d.Text += strings.Repeat("  ", depth) + "- " + words[0] + ":  # " + trimmed + "\n"
		d.Tasks = append(d.Tasks, Task{
			Ref: ref + "/" + part + "/0/" + words[0], Name: words[0], Kind: words[1],
			Detail: strings.Join(words[2:], " "), Line: 5 + me,
		})
	}
	return d
}

// historySource is a Source of one execution up to a version.
type historySource struct {
	x      Execution
	events []Event
	data   map[int64]string
	page   int
	reads  int
}

var errNone = errors.New("there is none")

func (s *historySource) Overview(context.Context) (Overview, error) { return Overview{}, errNone }

func (s *historySource) Page(context.Context, Query) (Page, error) { return Page{}, errNone }

func (s *historySource) Activities(context.Context, []string) ([]Activity, error) {
	return nil, errNone
}

func (s *historySource) Detail(context.Context, Table, string) (Detail, error) {
	return Detail{}, errNone
}

func (s *historySource) Plan(context.Context, Action) (Plan, error) { return Plan{}, errNone }

func (s *historySource) Do(context.Context, Action) (string, error) { return "", errNone }

func (s *historySource) Execution(_ context.Context, id string) (Execution, error) {
	if id != s.x.ID {
		return Execution{}, errNone
	}
	x := s.x
	x.Version = int64(len(s.events))
	return x, nil
}

func (s *historySource) History(_ context.Context, _ string, after int64) ([]Event, error) {
	s.reads++
	if after >= int64(len(s.events)) {
		return nil, nil
	}
	rest := s.events[after:]
	return append([]Event(nil), rest[:min(len(rest), s.page)]...), nil
}

func (s *historySource) Data(_ context.Context, _ string, version int64) (string, error) {
	if text, ok := s.data[version]; ok {
		return text, nil
	}
	return fmt.Sprintf(`{"task_id":"x","version":%d}`, version), nil
}

// screenOf returns the screen of an execution in a model.
func screenOf(source Source, id string) *executionScreen {
	m := newModel(source, Options{Output: io.Discard})
	m.width, m.height = 200, 50
	return newExecutionScreen(m, id)
}

// settle runs commands and those that follow from their answers.
func settle(t *testing.T, cmd tea.Cmd) {
	t.Helper()
	todo := []tea.Cmd{cmd}
	for n := 0; len(todo) > 0; n++ {
		if n > 100_000 {
			t.Fatal("the screen does not stop asking")
		}
		cmd, todo = todo[0], todo[1:]
		if cmd == nil {
			continue
		}
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			todo = append(todo, msg...)
		case response:
			todo = append(todo, msg.take())
		}
	}
}

// press presses keys, and settles the commands that follow from each.
func press(t *testing.T, s screen, keys ...string) {
	t.Helper()
	for _, k := range keys {
		cmd, _ := s.key(k)
		settle(t, cmd)
	}
}

// shoot draws a screen, reads the data that it then requests, and draws it again.
func shoot(t *testing.T, s screen, w, h int, now time.Time) string {
	t.Helper()
	var c *canvas.Canvas
	at := start
	if x, ok := s.(*executionScreen); ok && x.reads.executionAt.After(at) {
		at = x.reads.executionAt
	}
	for range 3 {
		c = canvas.New(w, h)
		s.draw(c.All(), canvas.Theme{Palette: paletteOf(Dark)}, now)
		at = at.Add(time.Hour)
		settle(t, s.refresh(at))
	}
	return picture(c)
}
