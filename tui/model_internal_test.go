package tui

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/tui/canvas"
)

// Actions are planned and shown, and carried out once they are confirmed.
func TestActions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys []string
		want []Action
	}{
		"cancel":           {[]string{"2", "c", "y"}, []Action{{Verb: Cancel, Table: Executions, IDs: []string{"order-1"}}}},
		"cancel, no":       {[]string{"2", "c", "n"}, nil},
		"cancel, esc":      {[]string{"2", "c", "esc"}, nil},
		"enter":            {[]string{"2", "z", "enter"}, []Action{{Verb: Suspend, Table: Executions, IDs: []string{"order-1"}}}},
		"resume":           {[]string{"2", "u", "y"}, []Action{{Verb: Resume, Table: Executions, IDs: []string{"order-1"}}}},
		"retry":            {[]string{"2", "j", "j", "j", "R", "y"}, []Action{{Verb: Retry, Table: Executions, IDs: []string{"order-4"}}}},
		"record":           {[]string{"2", "w", "enter", "y"}, []Action{{Verb: Record, Table: Executions, IDs: []string{"order-1"}, Text: "order-1.jsonl"}}},
		"several":          {[]string{"3", "x", "j", "x", "F", "y"}, []Action{{Verb: Fire, Table: Timers, IDs: []string{"t-000", "t-002"}}}},
		"reschedule":       {[]string{"3", "M", "'PT1H", "enter", "y"}, []Action{{Verb: Reschedule, Table: Timers, IDs: []string{"t-000"}, Text: "PT1H"}}},
		"replay":           {[]string{"4", "ctrl+a", "R", "y"}, []Action{{Verb: Replay, Table: DeadLetters, IDs: []string{"176720-0", "176721-0", "176722-0"}}}},
		"drop":             {[]string{"4", "D", "y"}, []Action{{Verb: Drop, Table: DeadLetters, IDs: []string{"176720-0"}}}},
		"emit":             {[]string{"e", "ctrl+u", "'{\"type\":\"a\"}", "enter", "y"}, []Action{{Verb: Emit, Text: `{"type":"a"}`}}},
		"command":          {[]string{":", "'fire t-004", "enter", "y"}, []Action{{Verb: Fire, Table: Timers, IDs: []string{"t-004"}}}},
		"emit command":     {[]string{":", "'emit {}", "enter", "y"}, []Action{{Verb: Emit, Text: "{}"}}},
		"moved by command": {[]string{":", "'resch t-1 10m", "enter", "y"}, []Action{{Verb: Reschedule, Table: Timers, IDs: []string{"t-1"}, Text: "10m"}}},
		"from overview":    {[]string{"j", "F", "y"}, []Action{{Verb: Fire, Table: Timers, IDs: []string{"t-001"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted()
			playing(t, s, 80, 24, Options{}).keys(c.keys...)
			if diff := cmp.Diff(c.want, s.done); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

// A count of one has its noun in the singular.
func TestOneDeadLetter(t *testing.T) {
	t.Parallel()
	s := newScripted()
	s.overview.Counts = Counts{Timers: 1, Dead: 1, Scheduled: 1}
	playing(t, s, 120, 24, Options{}).has("1 timer ").has("1 dead letter ").has("1 scheduled event")
}

// Enter alone does not confirm an action that loses something, and it is carried out with force.
func TestWarning(t *testing.T) {
	t.Parallel()
	s := newScripted()
	s.plan.Warning = "This cannot be undone."
	p := playing(t, s, 80, 24, Options{}).keys("4", "D", "enter").has("This cannot be undone.")
	if len(s.done) != 0 {
		t.Errorf("done by enter: %v", s.done)
	}
	p.keys("y").has("done: Drop dead letter")
	if len(s.done) != 1 || !s.done[0].Force {
		t.Errorf("done: %v, want one with force", s.done)
	}
}

// While the connection is lost, the screen says so, keeps what it shows, and retries at growing
// intervals; once the connection is back, everything continues.
func TestLostAndFound(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 80, 24, Options{}).keys("2", "j").pass(3 * time.Second)
	s.lost = true
	p.pass(2500*time.Millisecond).has("connection lost, trying again in", "注文-2", "ago")
	before := s.asked
	p.pass(time.Minute).has("connection lost")
	if tries := s.asked - before; tries < 4 || tries > 15 {
		t.Errorf("%d tries in a minute, want some, fewer and fewer", tries)
	}
	p.keys("3").has("reading timers")
	s.lost = false
	p.pass(16 * time.Second).lacks("connection lost").has("order-2")
	p.keys("2").has("2 of 12,393")
}

// An action that fails because the connection is lost does not fail silently.
func TestLostWhileActing(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 80, 24, Options{}).keys("2", "c")
	s.lost = true
	p.keys("y").has("dial 127.0.0.1:6379: the connection is lost")
	p.keys("c").has("╭─ Cancel execution", "the connection is lost")
}

// The screen reports a problem of the source, or its silence, for as long as it lasts.
func TestTrouble(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 80, 24, Options{}).keys("2")
	s.wrong = errNone
	p.pass(3*time.Second).has(errNone.Error(), "order-4")
	s.wrong = nil
	p.pass(5 * time.Second).lacks(errNone.Error())
	p.hold = true
	p.pass(4 * time.Second).has("no response for 3s")
}

// Keys that arrive together act one after another, but nothing is confirmed before it is planned.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 80, 24, Options{}).keys("2", "'jcy").has("╭─ Cancel execution 注文-2")
	if len(s.done) != 0 {
		t.Errorf("done before it was planned: %v", s.done)
	}
	p.keys("y")
	if len(s.done) != 1 {
		t.Errorf("done: %v", s.done)
	}
	p.keys("enter").send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("4"), Alt: true})
	p.has("── Dead letters ──").keys("/")
	p.send(tea.KeyMsg{Type: tea.KeyEsc, Alt: true})
	p.keys("':timers").has(":timers").keys("enter").has("── Timers ──")
}

func TestTheme(t *testing.T) {
	t.Parallel()
	p := playing(t, newScripted(), 80, 24, Options{}).keys(":", "'theme none", "enter")
	if strings.Contains(p.m.View(), "\x1b[0;9") {
		t.Error("there are colours after :theme none")
	}
	p.keys(":", "'theme pink", "enter").has("want dark, light or none")
}

// A screen first shows times in the zone of the machine, unless it shows the clock of a run.
func TestZone(t *testing.T) {
	t.Parallel()
	for want, utc := range map[string]bool{"12:00:00 UTC": true, "14:00:00 CEST": false} {
		p := playing(t, newScripted(), 80, 24, Options{})
		options := p.m.options
		options.Zone, options.UTC = time.FixedZone("CEST", 7200), utc
		p.m = newModel(newScripted(), options)
		p.send(tea.WindowSizeMsg{Width: 80, Height: 24})
		p.run(p.m.readOverview())
		p.has(want)
	}
}

func TestGoing(t *testing.T) {
	t.Parallel()
	p := playing(t, newScripted(), 80, 24, Options{Zone: time.FixedZone("CEST", 7200)})
	for _, step := range []struct{ key, title string }{
		{"2", "── Executions ──"},
		{"d", "── execution order-1 ──"},
		{"tab", "── execution order-1 ──"},
		{"tab", "── execution order-1 ──"},
		{"d", "── Executions ──"},
		{"j", "── Executions ──"},
		{"enter", "── Executions › 注文-2"},
		{"esc", "── Executions ──"},
		{"enter", "── Executions › 注文-2"},
		{"4", "── Dead letters ──"},
		{"o", "── Dead letters › order-7"},
		{"esc", "── Dead letters ──"},
		{"1", "── Overview ──"},
		{"enter", "── Overview › order-2"},
		{"5", "── Events ──"},
		{"enter", "── event 17679999-0"},
		{"esc", "── event 17679999-0"},
	} {
		p.keys(step.key).has(step.title)
	}
	p.keys("esc").lacks("── event")
	for command, title := range map[string]string{"ex": "Executions", "timers": "Timers", "dlq": "Dead letters", "events": "Events", "o": "Overview", "open order-9": "› order-9", "time local": "14:00:00 CEST", "time utc": "12:00:00 UTC"} {
		p.keys(":", "'"+command, "enter").has(title)
	}
	p.keys(":", "'nonsense", "enter").has("no command is named nonsense")
	p.keys(":", "up", "enter").has("no command is named nonsense")
	p.keys(":", "'q", "enter")
	if !p.quit {
		t.Error(":q does not quit")
	}
}

// Marks stay until an action on the rows of their table succeeds.
func TestMarks(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 120, 30, Options{}).keys("2", "x", "x").has("2 marked").keys("r").has("2 marked")
	p.keys("3", "F", "y").keys("2").has("2 marked")
	p.keys("c").pass(0)
	s.wrong = errNone
	p.keys("y").has("2 marked").keys("c").has("esc closes").keys("esc")
	s.wrong = nil
	p.keys("c", "y").lacks("marked")
}

// recordOnly is a source that supports a single action.
type recordOnly struct{ *playback }

func (recordOnly) Can(v Verb) bool { return v == Record }

// A typed prefix means the command that is listed for it.
func TestCommandPrefix(t *testing.T) {
	t.Parallel()
	p := playing(t, recordOnly{newPlayback()}, 100, 24, Options{}).keys(":", "r", "e").has("record ID", "writes a recording")
	p.keys(" ", "x", "enter").has("Record execution x")
	p.keys("esc", ":", "r", "e", "s", "u", "m", "e", " ", "x", "enter").has("Resume execution x")
}

// A table that is being read says nothing about its number of rows.
func TestReading(t *testing.T) {
	t.Parallel()
	m := newModel(newScripted(), Options{Now: func() time.Time { return when }})
	m.width, m.height, m.place = 80, 24, 1+int(Timers)
	if view := m.View(); !strings.Contains(view, "reading timers") || strings.Contains(view, "0 rows") {
		t.Error(view)
	}
}

func TestQuit(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"q"}, {"2", "enter", "q"}, {"ctrl+c"}, {"2", "/", "'q", "ctrl+c"}, {"e", "ctrl+c"}, {"2", "c", "ctrl+c"}} {
		if p := playing(t, newScripted(), 80, 24, Options{}).keys(keys...); !p.quit {
			t.Errorf("%v does not quit", keys)
		}
	}
	if p := playing(t, newScripted(), 80, 24, Options{}).keys("2", "/", "'q"); p.quit {
		t.Error("a q in a filter quits")
	}
}

// The screen begins with the chosen execution.
func TestBegin(t *testing.T) {
	t.Parallel()
	playing(t, newScripted(), 80, 24, Options{Open: "order-5"}).has("› order-5")
}

func TestFilter(t *testing.T) {
	t.Parallel()
	p := playing(t, newScripted(), 80, 24, Options{}).keys("2", "/", "'status:f", "enter").has("order-10").lacks("order-1 ")
	p.keys("esc").has("order-1 ")
	p.keys("/", "'order-44", "esc").has("order-1 ")
	p.keys(":", "'filter order-449", "enter").has("order-449").lacks("order-1 ")
	p.keys("esc", "/", "'nothing is so", "enter").has("none of 450 matches")
	p.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("cy"), Paste: true})
	p.lacks("Cancel")
}

func TestCopy(t *testing.T) {
	t.Parallel()
	p := playing(t, newScripted(), 80, 24, Options{}).keys("3", "y").has("copied the id of the timer: t-000")
	p.keys("Y").has("copied the id of the execution: order-2")
	b := base64.StdEncoding
	want := fmt.Sprintf("\x1b]52;c;%s\a\x1b]52;c;%s\a", b.EncodeToString([]byte("t-000")), b.EncodeToString([]byte("order-2")))
	if got := p.out.String(); got != want {
		t.Errorf("written: %q, want %q", got, want)
	}
}

func TestMouse(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 80, 24, Options{})
	p.click(15, 0).has("── Executions ──")
	p.click(10, 6).has("4 of 12,393")
	p.click(16, 2).has("ID▲")
	p.click(16, 2).has("ID▼")
	p.click(10, 5).click(10, 5).has("── Executions › order-98")
	p.click(2, 0).click(10, 12).click(10, 12).has("── Overview › order-6")
	p.click(32, 0)
	p.send(tea.MouseMsg{Button: tea.MouseButtonWheelDown, Action: tea.MouseActionPress})
	p.has("4 of 30")
}

// The answers of a question can be clicked, and a click closes a text.
func TestMouseAnswers(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 80, 24, Options{})
	on := func(text string) (x, y int) {
		for y, line := range strings.Split(p.text(), "\n") {
			if before, _, ok := strings.Cut(line, text); ok {
				return canvas.Width(before), y
			}
		}
		t.Fatalf("%q is not on\n%s", text, p.text())
		return 0, 0
	}
	p.keys("2", "c").click(on("y yes"))
	if len(s.done) != 1 {
		t.Errorf("done: %v", s.done)
	}
	p.keys("c").click(on("n no")).lacks("╭─ Cancel")
	p.keys("c").click(2, 2).has("╭─ Cancel").keys("n")
	p.keys("?").has("esc closes").click(3, 3).lacks("esc closes")
	if len(s.done) != 1 {
		t.Errorf("done: %v", s.done)
	}
}

// Opening a dead letter without an execution goes to the dead letters.
func TestOpenDeadLetter(t *testing.T) {
	t.Parallel()
	s := newScripted()
	s.overview.Failed = []Row{{ID: "17-0", State: Dead, Kind: "com.shop.paid", At: when}}
	playing(t, s, 80, 24, Options{}).keys("right", "right").has("com.shop.paid").keys("enter").has("── Dead letters ──")
}

// Without a row, the overview opens nothing and says nothing.
func TestOpenNothing(t *testing.T) {
	t.Parallel()
	s := newScripted()
	s.overview.Due, s.overview.Running, s.overview.Failed = nil, nil, nil
	playing(t, s, 80, 24, Options{}).has("no timers").keys("enter").lacks("✘ it").has("? keys  q quit")
}

// A failed child in the overview is opened itself, not its parent.
func TestOpenFailedChild(t *testing.T) {
	t.Parallel()
	s := newScripted()
	s.overview.Due, s.overview.Running = nil, nil
	s.overview.Failed = []Row{{ID: "order-4.1", State: Faulted, Execution: "order-4", At: when}}
	playing(t, s, 80, 24, Options{}).has("order-4.1").keys("enter").has("› order-4.1")
}

// Any key closes a text that fits; a longer one is scrolled.
func TestClosingKey(t *testing.T) {
	t.Parallel()
	playing(t, newScripted(), 160, 48, Options{}).keys("?").has("any key closes").keys(" ").lacks("any key closes")
	playing(t, newScripted(), 80, 24, Options{}).keys("?", " ").has("esc closes").keys("esc").lacks("esc closes")
}

// Keys, commands and clicks move time, one move after another.
func TestTime(t *testing.T) {
	t.Parallel()
	f := newPlayback()
	p := playing(t, f, 80, 24, Options{}).has("paused", "12:00:00.000")
	p.keys("t").has("12:10:00.000")
	p.keys("]").has("12:12:24.000")
	p.keys("[", "n", "p", "T", "+", "-", " ", " ")
	p.keys(":", "'seek 30m", "enter").has("11:30:00.000")
	p.keys(":", "'speed 60", "enter", "2", "n")
	p.click(30, 22)
	var verbs []string
	for _, m := range f.moves {
		verbs = append(verbs, string(m.Verb))
	}
	want := "next timer,seek,seek,next event,event before,timer before,speed,speed,play,pause,seek,speed,next event,seek"
	if got := strings.Join(verbs, ","); got != want {
		t.Errorf("moves: %s, want %s", got, want)
	}
}

// A move requested during another one follows it; of several, only the last one does.
func TestMovesWait(t *testing.T) {
	t.Parallel()
	f := newPlayback()
	p := playing(t, f, 80, 24, Options{})
	p.hold = true
	p.keys("]", "]", "[", "t")
	p.hold = false
	for _, cmd := range slices.Clone(p.partial) {
		p.run(cmd)
	}
	var verbs []MoveVerb
	for _, m := range f.moves {
		verbs = append(verbs, m.Verb)
	}
	if diff := cmp.Diff([]MoveVerb{Seek, NextTimer}, verbs); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}

// A clock that only moves forward uses two keys, and leaves the others alone.
func TestAdvance(t *testing.T) {
	t.Parallel()
	f := newPlayback()
	f.overview.Clock.Seeks = false
	p := playing(t, f, 80, 24, Options{}).keys("3", "x", "p").has("1 marked")
	p.keys("a", "'soon", "enter").has("want a duration")
	p.keys("ctrl+u", "'PT1H", "enter", "t")
	want := []Move{{Verb: Advance, By: time.Hour}, {Verb: NextTimer}}
	if diff := cmp.Diff(want, f.moves); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	p.keys(":", "s").has("seek").lacks("sets the speed") // it runs at real speed
	p = playing(t, newScripted(), 80, 24, Options{}).keys(":", "'play", "enter")
	p.has("time cannot be moved here")
}

// No size and no data break a screen: it has as many lines as its height, none wider than the
// screen, and no control characters other than colour codes.
func TestAnySize(t *testing.T) {
	t.Parallel()
	for _, scene := range scenes {
		t.Run(scene.name, func(t *testing.T) {
			t.Parallel()
			var source Source = newScripted()
			if scene.playback {
				source = newPlayback()
			}
			p := playing(t, source, 80, 24, Options{}).keys(scene.keys...)
			for _, size := range [][2]int{{1, 1}, {2, 3}, {20, 5}, {7, 40}, {300, 2}, {119, 30}, {120, 30}, {13, 13}, {200, 60}} {
				p.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
				checkScreen(t, p.m.View(), size[0], size[1])
				p.keys("down", "pgdown").click(size[0]/2, size[1]/2)
			}
		})
	}
}

// checkScreen fails if a screen could break a terminal of this size.
func checkScreen(t *testing.T, screen string, w, h int) {
	t.Helper()
	lines := strings.Split(screen, "\n")
	if len(lines) != h {
		t.Errorf("%d lines at %dx%d", len(lines), w, h)
	}
	for _, line := range lines {
		bare := colourCodes.ReplaceAllString(line, "")
		if n := canvas.Width(bare); n > w {
			t.Errorf("%d cells at %dx%d: %q", n, w, h, bare)
		}
		for _, r := range bare {
			if r != ' ' && canvas.Contested(r) {
				t.Errorf("%q at %dx%d in %q", r, w, h, bare)
			}
		}
	}
}

// A tick reads only what is due.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 80, 24, Options{}).keys("2").pass(5 * time.Second)
	before := s.asked
	for range 40 {
		p.now = p.now.Add(restingTick)
		p.run(p.m.tick(p.now))
	}
	if asked := s.asked - before; asked > 16 {
		t.Errorf("%d questions in 10 seconds", asked)
	}
}

// A second of the overview and of a table with a thousand rows on a large screen
// must be drawn within a frame.
func BenchmarkView(b *testing.B) {
	for name, keys := range map[string][]string{"overview": nil, "executions": {"2", "G"}, "executions with detail": {"2", "d"}, "execution": {"2", "enter"}} {
		b.Run(name, func(b *testing.B) {
			s := newScripted()
			for len(s.rows[Executions]) < 1000 {
				s.rows[Executions] = append(s.rows[Executions], s.rows[Executions][len(s.rows[Executions])-400])
			}
			p := playing(&testing.T{}, s, 200, 60, Options{}).keys(keys...).pass(time.Second)
			b.ReportAllocs()
			for b.Loop() {
				p.m.View()
			}
		})
	}
}

// A terminal that was suspended needs the mouse to be enabled again.
func TestResumed(t *testing.T) {
	t.Parallel()
	for _, mouse := range []bool{true, false} {
		m := newModel(newScripted(), Options{Mouse: mouse, Title: "flunq"})
		asked := false
		for _, cmd := range m.update(tea.ResumeMsg{})().(tea.BatchMsg) {
			asked = asked || cmd != nil && reflect.DeepEqual(cmd(), tea.EnableMouseCellMotion())
		}
		if asked != mouse {
			t.Errorf("mouse %v: asked for %v", mouse, asked)
		}
	}
}

// A filter says so if it names no column, or one that cannot be filtered.
func TestFilterProblems(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]string{
		"status:wait":   "",
		"parent:order":  "",
		"http://a.b":    "",
		"12:30":         "",
		"age:5":         "the column AGE cannot be filtered; those that can: status, id, workflow, parent",
		"order:7":       "no column is named order; those that can: status, id, workflow, parent",
		"reason:x":      "no column is named reason; those that can: ",
		"status:wating": "no status has wating in its name",
	} {
		if got := ParseFilter(Executions, filter).Problem; got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", filter, got, want)
		}
	}
	if f := ParseFilter(DeadLetters, "reason:grpc"); f.Problem != "" || f.Fields["note"] != "grpc" {
		t.Errorf("reason:grpc is read as %+v", f)
	}
	p := playing(t, newScripted(), 80, 24, Options{}).keys("2", "/", "'age:5").has("/age:5", "the column AGE cannot be filtered")
	p.keys("enter").has("none of 450 matches age:5", "the column AGE cannot be filtered")
}

// An arrow at the sorted column shows the direction.
func TestSortArrows(t *testing.T) {
	t.Parallel()
	p := playing(t, newScripted(), 100, 24, Options{}).keys("2").has("AGE▲")
	table := p.m.places[1+int(Executions)].(*listScreen).table
	for p.keys("s").pass(time.Second); table.sort != 0; p.keys("s").pass(time.Second) {
		column := tables[Executions].columns[table.sort-1]
		for _, arrow := range []string{"▲", "▼"} {
			if _, down := table.sorted(); down != (arrow == "▼") {
				p.keys("v").pass(time.Second)
			}
			p.has(column.title + arrow)
			if !slices.IsSortedFunc(table.rows, func(a, b Row) int {
				if arrow == "▼" {
					a, b = b, a
				}
				return column.compare(a, b)
			}) {
				t.Errorf("%s%s is not sorted so", column.title, arrow)
			}
		}
	}
}

// A typed id is looked up before it is opened.
func TestOpenUnknown(t *testing.T) {
	t.Parallel()
	s := newScripted()
	p := playing(t, s, 80, 24, Options{})
	s.wrong = errNone
	p.keys(":", "'open nobody", "enter").has("✘ open: there is none", "── Overview ──").lacks("› nobody")
}

// Keys that would do nothing are not shown: in an empty table, or while the user types text.
func TestHintsHold(t *testing.T) {
	t.Parallel()
	foot := func(p *player) string {
		return strings.TrimSpace(strings.Split(p.text(), "\n")[23])
	}
	s := newScripted()
	s.rows[DeadLetters], s.overview.Due, s.overview.Running, s.overview.Failed = nil, nil, nil, nil
	for name, c := range map[string]struct {
		keys []string
		want string
	}{
		"nothing on the overview": {nil, "1–5 places  : command  ? keys  q quit"},
		"no dead letters":         {[]string{"4"}, "? keys  q quit"},
		"nothing matches":         {[]string{"2", "/", "'nothing", "enter"}, "/ filter  esc show all  ? keys  q quit"},
		"typing a filter":         {[]string{"2", "/", "'q"}, "enter keeps the filter  esc shows all  status:text searches one column"},
		"a question":              {[]string{"2", "c"}, ""},
		"a completed execution":   {[]string{"2", "j", "j"}, "enter open  / filter  d detail  x mark  s sort  ? keys  q quit"},
		"a waiting one":           {[]string{"2", "j"}, "enter open  / filter  d detail  c cancel  z suspend  x mark  ? keys  q quit"},
		"in the detail":           {[]string{"3", "enter"}, "tab to the table  ↑ ↓ line  y copy the value  ← → fold  ? keys  q quit"},
	} {
		if got := foot(playing(t, s, 80, 24, Options{}).keys(c.keys...).pass(time.Second)); got != c.want {
			t.Errorf("%s: the hints are %q, want %q", name, got, c.want)
		}
	}
	if got := foot(playing(t, newPlayback(), 80, 24, Options{}).keys("2", "/", "'x")); strings.Contains(got, "space") {
		t.Errorf("the keys of time are offered while a filter is typed: %s", got)
	}
}
