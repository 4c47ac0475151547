package tui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/tui/canvas"
)

func sold() *historySource {
	s := shopStory()
	s.begin("/do/0/both/fork/branches/0/ship/do/0/send").end("/do/0/both/fork/branches/0/ship/do/0/send", Completed, "")
	s.end("/do/0/both/fork/branches/0/ship", Completed, "").end("/do/0/both/fork/branches/0/mail", Completed, "")
	s.end("/do/0/both", Completed, "").begin("/do/0/rest").wait("/do/0/rest", Waiting, 30*24*time.Hour)
	x := Execution{
		Row:      Row{ID: "order-7", Workflow: "examples.shop", State: Waiting, At: start, Execution: "parent-1"},
		Document: documentOf(shop),
		Waits:    []string{"a timer of 30 days"},
		Timers: []Row{
			{ID: "t-1", State: Waiting, Kind: "wait", Task: "/do/0/rest", At: s.at.Add(30 * 24 * time.Hour)},
			{ID: "t-2", State: Waiting, Kind: "timeout", Task: "", At: s.at.Add(60 * 24 * time.Hour)},
		},
		Children: []Row{{ID: "order-7.1", Workflow: "examples.ship", State: Running, Task: "/do/0/both/fork/branches/0/ship/do/0/send", At: start}},
	}
	x.Facts = [][2]string{{"workflow", "examples.shop 0.1.0"}, {"definition", "6bd7fe12"}}
	x.Data = []Data{{"input", `{"order":7}`}}
	data := map[int64]string{1: `{"namespace":"examples","input":{"order":7}}`}
	for _, e := range s.events {
		if e.Type == "task.completed" {
			data[e.Version] = fmt.Sprintf(`{"task_id":%q,"success":true,"output":{"by":%q,"event":%d}}`, e.Task, e.Task, e.Version)
		}
		if e.State == Faulted {
			data[e.Version] = `{"success":false,"error":{"status":503,"title":"Service Unavailable"}}`
		}
	}
	return &historySource{x: x, events: s.events, data: data, page: 25}
}

var noon = start.Add(12 * time.Hour)

// The screen of an execution matches its golden files at each supported size.
func TestExecutionScreen(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{80, 20}, {80, 9}, {120, 30}, {160, 44}, {40, 12}} {
		s := screenOf(sold(), "order-7")
		compare(t, fmt.Sprintf("execution-%dx%d", size[0], size[1]), shoot(t, s, size[0], size[1], noon))
	}
}

// Tab cycles through the panes.
func TestExecutionPanes(t *testing.T) {
	t.Parallel()
	s := screenOf(sold(), "order-7")
	shoot(t, s, 80, 20, noon)
	var b strings.Builder
	for range paneCount {
		press(t, s, "tab")
		b.WriteString(shoot(t, s, 80, 20, noon) + strings.Repeat("=", 80) + "\n")
	}
	compare(t, "execution-panes", b.String())
}

// The data pane shows a task's output and its input: from the previous task, or from outside.
func TestExecutionData(t *testing.T) {
	t.Parallel()
	s := screenOf(sold(), "order-7")
	shoot(t, s, 80, 30, noon)
	s.tree.foldAll(allOpen)
	titles := map[string][2]string{}
	press(t, s, "end")
	for range s.tree.window.lines {
		l := s.tree.chosen()
		name := s.tree.text(canvas.Theme{}, &l, &treeOptions{}).name
		if l.kind == runLine {
			name = s.tree.tasks.at(s.tree.runs[l.run].task).Name + s.tree.runs[l.run].Iteration + "@" + s.tree.runs[l.run].Attempt
		}
		press(t, s, "b")
		shoot(t, s, 80, 30, noon)
		before := s.dataTitle() + " " + s.data.view.text
		press(t, s, "b")
		shoot(t, s, 80, 30, noon)
		titles[name] = [2]string{before, s.dataTitle() + " " + s.data.view.text}
		press(t, s, "up")
	}
	want := map[string][2]string{
		"@":         {"before the workflow: input, event 1 {\"order\":7}", "the workflow has not ended; its input: input, event 1 {\"order\":7}"},
		"reserve@":  {"before reserve: input, event 1 {\"order\":7}", `after reserve: output, event 3 {"by":"/do/0/reserve","event":3}`},
		"charge@":   {`before charge: output of reserve before it, event 3 {"by":"/do/0/reserve","event":3}`, `after charge: error, event 6 {"status":503,"title":"Service Unavailable"}`},
		"charge@1":  {`before charge attempt 2: output of reserve before it, event 3 {"by":"/do/0/reserve","event":3}`, `after charge attempt 2: output, event 10 {"by":"/do/0/pay/try/0/charge@1","event":10}`},
		"pack24@":   {`before pack[24]: output of pack before it, event 60 {"by":"/do/0/each/do/0/pack#23","event":60}`, `after pack[24]: output, event 62 {"by":"/do/0/each/do/0/pack#24","event":62}`},
		"label@":    {`before label: output of each before it, event 63 {"by":"/do/0/each","event":63}`, `after label: output, event 68 {"by":"/do/0/both/fork/branches/0/ship/do/0/label","event":68}`},
		"rest@":     {`before rest: output of both before it, event 73 {"by":"/do/0/both","event":73}`, `rest has not ended; its input: output of both before it, event 73 {"by":"/do/0/both","event":73}`},
		"attempt 1": {`before charge: output of reserve before it, event 3 {"by":"/do/0/reserve","event":3}`, `after charge: error, event 6 {"status":503,"title":"Service Unavailable"}`},
		"thanks":    {"thanks: it has not run ", "thanks: it has not run "},
	}
	for name, both := range want {
		if diff := cmp.Diff(both, titles[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// At a moment before its first event, an execution has neither input nor output.
func TestExecutionDataBeforeTheStart(t *testing.T) {
	t.Parallel()
	source := sold()
	source.x.Version, source.x.State, source.events = 0, Pending, nil
	s := screenOf(source, "order-7")
	shoot(t, s, 80, 30, noon)
	if got, want := s.dataTitle(), "the workflow: it has not begun"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Keys act on the execution and its timers, open other executions, and copy.
func TestExecutionKeys(t *testing.T) {
	t.Parallel()
	s := screenOf(sold(), "order-7")
	shoot(t, s, 80, 20, noon)
	for _, c := range []struct{ keys, want string }{
		{"c", "Cancel execution order-7"},
		{"z", "Suspend execution order-7"},
		{"u", "Resume execution order-7"},
		{"R", "Retry execution order-7"},
		{"w", "Record execution order-7"},
		{"F", "Fire timer t-1"},
		{"C", "Cancel timer t-1"},
		{"M", "Reschedule timer t-1"},
		{"y", "copied the reference of the task: /do/0/rest"},
		{"Y", "copied the id of the execution: order-7"},
		{"P", "open parent-1"},
		{"tab tab tab tab enter down F", "Fire timer t-2"},
		{"tab tab enter", "open order-7.1"},
		{"esc up enter", "open order-7.1"},
	} {
		press(t, s, strings.Fields(c.keys)...)
		if got := done(s.m); got != c.want {
			t.Errorf("%s: %q, want %q", c.keys, got, c.want)
		}
		shoot(t, s, 80, 20, noon)
	}
	if _, handled := s.key("esc"); handled {
		t.Error("esc in the tree does not go back")
	}
	if _, handled := s.key("?"); handled {
		t.Error("? is taken")
	}
}

// done says what a key has done to the model, and undoes it.
func done(m *model) string {
	said := m.notice.text
	switch d := m.dialog.(type) {
	case *confirmation:
		said = sentence(d.action)
	case *prompt:
		said = d.title
	}
	for _, s := range m.opened {
		said = "open " + s.title()
	}
	m.dialog, m.opened, m.notice = nil, nil, notice{}
	return said
}

// The filters of the tree and of the history are typed in the same way.
func TestExecutionFilter(t *testing.T) {
	t.Parallel()
	s := screenOf(sold(), "order-7")
	shoot(t, s, 80, 20, noon)
	press(t, s, "/", "p", "a", "c", "k")
	if !s.typing() {
		t.Error("it is not typed into")
	}
	typing := shoot(t, s, 80, 20, noon)
	press(t, s, "enter")
	compare(t, "execution-filter", typing+shoot(t, s, 80, 20, noon))
	press(t, s, "esc")
	if s.tree.window.typed != "" {
		t.Error("esc does not end the filter")
	}
	press(t, s, "/", "x", "esc", "tab", "tab", "tab", "enter")
	s.inPane = true
	press(t, s, "/", "f", "i", "r", "e", "d", "enter")
	shoot(t, s, 80, 20, noon)
	if len(s.history.shown) != 1 || s.tree.window.typed != "" {
		t.Errorf("%d events match, and the tree is filtered by %q", len(s.history.shown), s.tree.window.typed)
	}
	press(t, s, "enter")
	if s.pane != dataPane || !strings.Contains(s.dataTitle(), "event 8") {
		t.Errorf("the pane is %d with %q, want the data of event 8", s.pane, s.dataTitle())
	}
	press(t, s, "esc", "esc", "esc")
	if s.inPane {
		t.Error("esc does not go back to the tree")
	}
}

// The screen follows new events, and moves back when time does.
func TestExecutionFollows(t *testing.T) {
	t.Parallel()
	src := sold()
	all := src.events
	s := screenOf(src, "order-7")
	src.events = all[:20]
	first := shoot(t, s, 80, 70, noon)
	src.events = all
	if full := shoot(t, s, 80, 70, noon); full == first || s.tree.x.Version != int64(len(all)) {
		t.Errorf("the tree is at version %d, want %d", s.tree.x.Version, len(all))
	}
	reads := src.reads
	src.x.State = Completed
	shoot(t, s, 80, 70, noon)
	src.reads = 0
	shoot(t, s, 80, 70, noon)
	if src.reads > 0 {
		t.Errorf("what has ended is read again %d times (%d before)", src.reads, reads)
	}
	src.x.State, src.events = Waiting, all[:20]
	s.outdate(true)
	if back := shoot(t, s, 80, 70, noon); back != first {
		t.Errorf("moved back:\n%s\nwant:\n%s", back, first)
	}
}

// The screen reports missing and unreadable data.
func TestExecutionProblems(t *testing.T) {
	t.Parallel()
	s := screenOf(sold(), "order-8")
	if got := shoot(t, s, 80, 5, noon); !strings.Contains(got, "there is none") {
		t.Errorf("an execution that is not there is shown as\n%s", got)
	}
	src := sold()
	src.x.Document, src.x.Timers, src.x.Children, src.x.Facts, src.x.Waits = nil, nil, nil, nil, nil
	src.x.Problem = "the document is not kept any more"
	s = screenOf(src, "order-7")
	for range paneCount {
		shoot(t, s, 80, 20, noon)
		press(t, s, "tab", "enter", "right", "left", "end", "home", "pgdown", "pgup", "enter", "esc")
	}
	if got := shoot(t, s, 80, 20, noon); !strings.Contains(got, "not kept any more") {
		t.Errorf("the problem is not shown:\n%s", got)
	}
}

// Whatever the names and the size of the screen, no output moves the terminal's cursor, and
// nothing panics.
func TestExecutionHostile(t *testing.T) {
	t.Parallel()
	const bad = "\x1b[2J\x07\u202e水\xff\r\n"
	src := sold()
	for i := range src.events {
		if e := &src.events[i]; i%3 == 0 && e.Ref != "" {
			e.Ref, e.Iteration, e.Text, e.Type = e.Ref+bad, bad+"."+bad, bad, bad
		}
	}
	src.events = append(src.events, Event{Version: int64(len(src.events) + 1), Ref: "/use/functions/" + bad, Attempt: "r.r..x", State: Running})
	src.x.ID, src.x.Workflow, src.x.Note, src.x.Waits = bad, bad, bad, []string{bad}
	src.x.Document.Text = bad + src.x.Document.Text
	src.x.Facts = append(src.x.Facts, [2]string{bad, bad})
	src.x.Children[0].ID, src.x.Timers[0].Kind, src.x.Timers[0].Task = bad, bad, bad
	for v := range int64(100) {
		src.data[v] = bad
	}
	keys := strings.Fields("tab enter down right enter } end b / x enter esc esc { home f tab b left y pgdown up enter esc")
	for _, size := range [][2]int{{0, 0}, {1, 1}, {3, 30}, {30, 3}, {80, 20}, {130, 12}, {170, 40}} {
		s := screenOf(src, bad)
		for range 3 {
			for i, k := range append(keys, "y") {
				press(t, s, k)
				if got := shoot(t, s, size[0], size[1], noon); strings.ContainsAny(got, "\x1b\x07\r\u202e") {
					t.Fatalf("after %s:\n%q", k, got)
				}
				settle(t, s.click(i*3%max(1, size[0]), i%max(1, size[1]), i%2 == 0))
				s.wheel(3)
				s.hints()
			}
		}
	}
}

// A click chooses a task, a pane, and a line in it.
func TestExecutionMouse(t *testing.T) {
	t.Parallel()
	s := screenOf(sold(), "order-7")
	shoot(t, s, 120, 30, noon)
	line := slices.IndexFunc(s.tree.window.lines, func(l treeLine) bool {
		return s.tree.text(canvas.Theme{}, &l, &treeOptions{}).name == "mail"
	})
	settle(t, s.click(10, s.areas.tree.Y+line-s.tree.window.Offset, false))
	if got := s.tree.chosenTask().Name; got != "mail" {
		t.Errorf("a click chooses %q, want mail", got)
	}
	settle(t, s.click(s.areas.tabs.X+s.areas.ends[timersPane]-1, s.areas.tabs.Y, false))
	if s.pane != timersPane || !s.inPane {
		t.Errorf("a click on a tab chooses pane %d", s.pane)
	}
	shoot(t, s, 120, 30, noon)
	settle(t, s.click(s.areas.pane.X+3, s.areas.pane.Y+1, false))
	if timer := s.timer(); timer.ID != "t-2" {
		t.Errorf("a click chooses timer %q, want t-2", timer.ID)
	}
	s.pane = dataPane
	settle(t, s.chose())
	for _, call := range []string{"", "GET http://mail.example/"} { // which takes a line above the data
		s.tree.runs[s.tree.chosenRun()].Call = call
		lines := strings.Split(shoot(t, s, 120, 30, noon), "\n")
		y := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"by":`) })
		settle(t, s.click(s.areas.pane.X+3, y, false))
		if path := s.data.view.label(); path != ".by" {
			t.Errorf("with the call %q, a click on line %d chooses %q, want .by", call, y, path)
		}
	}
}

func BenchmarkExecutionDraw(b *testing.B) {
	src := &historySource{x: Execution{Row: Row{ID: "x", State: Running}, Document: documentOf(shop), Version: 200_002}, events: loop(100_000).events, page: 1000}
	s := screenOf(src, "x")
	s.takeExecution(src.x, 0, nil)
	s.takeEvents(src.events, 0, nil)
	c := canvas.New(160, 48)
	for b.Loop() {
		s.tree.changes++
		s.draw(c.All(), canvas.Theme{}, noon)
	}
}
