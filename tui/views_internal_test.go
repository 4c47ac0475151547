package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/tui/canvas"
)

// The time bar shows the current time and the timers, and each position on it is a time.
func TestTimeline(t *testing.T) {
	t.Parallel()
	c := Clock{
		Moves: true, Seeks: true, Paused: true, Start: start, End: start.Add(48 * time.Hour),
		Marks: []time.Time{start.Add(time.Hour), start.Add(24 * time.Hour), start.Add(40 * time.Hour), start.Add(90 * time.Hour)},
	}
	var b strings.Builder
	var line timeBar
	show := func(w int, now time.Time) {
		screen := canvas.New(w, 1)
		line.draw(screen.All(), canvas.Theme{Palette: paletteOf(Dark)}, c, now)
		b.WriteString(picture(screen))
	}
	for _, d := range []time.Duration{0, time.Hour, 24 * time.Hour, 30 * time.Hour, 48 * time.Hour, 60 * time.Hour, -time.Hour} {
		show(80, start.Add(d))
	}
	c.Paused, c.Speed = false, 3600
	show(120, start.Add(30*time.Hour))
	for _, w := range []int{0, 1, 5, 10, 20, 30, 50, 60} {
		show(w, start.Add(30*time.Hour))
	}
	c.End, c.Seeks = time.Time{}, false
	show(80, start.Add(30*time.Hour))
	show(80, start.Add(300*time.Hour))
	c = Clock{}
	show(80, start)
	compare(t, "timeline", b.String())

	c = Clock{Moves: true, Seeks: true, Start: start, End: start.Add(100 * time.Hour)}
	show(80, start)
	if _, ok := line.at(line.from - 1); ok {
		t.Error("left of the bar is a time")
	}
	for x := line.from; x < line.from+line.width; x++ {
		move, ok := line.at(x)
		if !ok || line.cell(move.To) != x-line.from {
			t.Fatalf("a click on %d means %v, which is at %d", x-line.from, move, line.cell(move.To))
		}
	}
	if move, _ := line.at(line.from + line.width - 1); !move.To.Equal(c.End) {
		t.Errorf("the end of the bar is %v, want %v", move.To, c.End)
	}

	// If everything happens at one moment, the time bar is a line of events.
	c.End, c.At, c.Of = start, 9, 18
	show(80, start)
	if move, ok := line.at(line.from + (line.width-1)/2); !ok || move.Event < 8 || move.Event > 9 {
		t.Errorf("the middle of the bar is %+v", move)
	}
}

// The document marks the chosen and the running tasks.
func TestDocumentView(t *testing.T) {
	t.Parallel()
	d := documentOf(shop)
	var v documentView
	v.read(d)
	drawn := func(w, h int) string {
		c := canvas.New(w, h)
		v.draw(c.All(), canvas.Theme{Palette: paletteOf(Dark)}, map[int]State{10: Running, 12: Waiting}, false)
		return picture(c)
	}
	v.show(14)
	compare(t, "document", drawn(44, 10))
	v.scroll(8)
	v.End()
	compare(t, "document-end", drawn(44, 5))
	for _, size := range [][2]int{{0, 0}, {1, 1}, {3, 2}, {5, 50}} {
		drawn(size[0], size[1])
	}
	v.read(nil)
	drawn(20, 3)
	v.read(&Document{Text: "\x1b[2J\ta: 水\r\n\xff"})
	if got := drawn(30, 3); strings.ContainsAny(got, "\x1b\r\t") {
		t.Errorf("shown as %q", got)
	}
}

// A filter also applies to later events; without it, the cursor stays on the last match.
func TestHistoryFilter(t *testing.T) {
	t.Parallel()
	events := shopStory().events
	v := newHistoryView()
	v.Height = 10
	v.add(events[:30])
	v.narrow("timer")
	if len(v.shown) != 2 {
		t.Errorf("%d events match timer, want 2", len(v.shown))
	}
	v.add(events[30:])
	v.narrow("fork requested")
	c := canvas.New(90, 6)
	v.draw(c.All(), canvas.Theme{Palette: paletteOf(Dark)}, start.Add(time.Hour), true)
	compare(t, "history-filter", picture(c))
	v.Start()
	match := v.current().Version
	v.narrow("")
	if got := v.current().Version; got != match || len(v.shown) != len(events) || v.follow {
		t.Errorf("at event %d of %d, want %d of %d", got, len(v.shown), match, len(events))
	}
	v.narrow("nothing is so")
	v.narrow("")
	if got := v.current().Version; got != int64(len(events)) {
		t.Errorf("at event %d, want the last one", got)
	}
}

func TestHistoryView(t *testing.T) {
	t.Parallel()
	v := newHistoryView()
	v.add(shopStory().events[:9])
	for _, w := range []int{120, 80, 40} {
		c := canvas.New(w, 10)
		v.draw(c.All(), canvas.Theme{Palette: paletteOf(Dark)}, start.Add(time.Hour), false)
		compare(t, fmt.Sprintf("history-%d", w), picture(c))
	}
}

func BenchmarkHistoryDraw(b *testing.B) {
	v := newHistoryView()
	v.add(loop(100_000).events)
	c := canvas.New(120, 40)
	for b.Loop() {
		v.draw(c.All(), canvas.Theme{}, start, true)
	}
}

// The timeline of an execution shows work, waits, attempts, parallel branches, the present, and
// weeks of waiting beside milliseconds, at each supported size.
func TestChart(t *testing.T) {
	t.Parallel()
	waits := shopStory()
	waits.begin("/do/0/both/fork/branches/0/ship/do/0/send").pass(3*time.Second).end("/do/0/both/fork/branches/0/ship/do/0/send", Completed, "")
	waits.end("/do/0/both/fork/branches/0/ship", Completed, "").pass(2*time.Second).end("/do/0/both/fork/branches/0/mail", Completed, "")
	waits.end("/do/0/both", Completed, "").begin("/do/0/rest").wait("/do/0/rest", Waiting, 30*24*time.Hour)
	var b strings.Builder
	drawn := func(name string, s *story, w, h int, now time.Time, theme canvas.Theme, change func(*taskTree)) {
		tree := treeOf(documentOf(shop), s)
		if change != nil {
			change(tree)
		}
		c := canvas.New(w, h)
		tree.drawChart(c.All(), theme, treeOptions{top: Row{Workflow: "shop"}, now: now, focus: true})
		b.WriteString("== " + name + "\n" + picture(c))
	}
	dark := canvas.Theme{Palette: paletteOf(Dark)}
	drawn("it waits", waits, 120, 34, waits.at.Add(12*time.Hour), dark, nil)
	drawn("narrow", waits, 60, 20, waits.at.Add(12*time.Hour), dark, nil)
	drawn("narrowest", waits, 30, 12, waits.at.Add(12*time.Hour), dark, nil)
	drawn("ascii, folded", waits, 80, 16, waits.at.Add(12*time.Hour), canvas.Theme{Palette: paletteOf(None), ASCII: true}, func(t *taskTree) { t.foldAll(noneOpen); t.unfold() })
	drawn("branches", shopStory(), 120, 34, shopStory().at.Add(time.Second), dark, nil)
	retries := newStory()
	retries.begin("/do/0/pay").begin("/do/0/pay/try/0/charge").pass(300*time.Millisecond).end("/do/0/pay/try/0/charge", Faulted, "503")
	for i := 1; i < 4; i++ {
		run := fmt.Sprintf("/do/0/pay/try/0/charge@%d", i)
		retries.wait("/do/0/pay", Retrying, time.Duration(i)*time.Second).pass(time.Duration(i) * time.Second)
		retries.tell(Event{Type: "timer.fired", Ref: "/do/0/pay", State: Running})
		retries.begin(run).pass(500*time.Millisecond).end(run, Faulted, "503")
	}
	retries.wait("/do/0/pay", Retrying, 4*time.Second)
	drawn("attempts", retries, 100, 16, retries.at.Add(time.Second), dark, nil)
	drawn("attempts, folded", retries, 100, 8, retries.at.Add(time.Second), dark, func(t *taskTree) { t.foldAll(noneOpen) })
	whole := newStory()
	whole.begin("/do/0/reserve").end("/do/0/reserve", Completed, "").begin("/do/0/rest").wait("/do/0/rest", Waiting, 30*24*time.Hour).pass(30 * 24 * time.Hour)
	whole.tell(Event{Type: "timer.fired", Ref: "/do/0/rest", State: Running}).end("/do/0/rest", Completed, "")
	whole.begin("/do/0/thanks").end("/do/0/thanks", Completed, "").tell(Event{Type: "workflow.completed", State: Completed})
	drawn("virtual, ended", whole, 100, 20, whole.at, dark, nil)
	drawn("nothing yet", &story{}, 80, 12, start, dark, nil)
	many := loop(30_000)
	drawn("many", many, 80, 20, many.at, dark, nil)
	compare(t, "chart", b.String())
}

func BenchmarkChart(b *testing.B) {
	tree := treeOf(documentOf(shop), loop(30_000))
	c := canvas.New(200, 60)
	for b.Loop() {
		tree.drawChart(c.All(), canvas.Theme{}, treeOptions{now: noon})
	}
}

// On a small screen each part that is drawn is whole: rows below a title, all digits of a number.
func TestSmallScreen(t *testing.T) {
	t.Parallel()
	p := playing(t, newScripted(), 40, 12, Options{})
	p.has("3s late   wait  order-2", "1m23s     call http", "1m00s    faulted")
	p.keys("2").has("WORKFLOW").lacks("AGE")
	p.keys("3").has("EXECUTION", "in 25s").lacks("TASK")
	playing(t, newScripted(), 40, 9, Options{}).keys("tab").has("Running now").lacks("Failed last")
	playing(t, newScripted(), 40, 12, Options{}).keys("2", "enter", "shift+tab").has("Children").lacks(" Data ")
}
