package tui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/tui/canvas"
)

const shop = `
reserve call POST https://stock.example
pay try
  charge call POST https://pay.example
  !refund set sorry
each for item in .items
  pack call PUT https://pack.example
both fork
  mail call POST https://mail.example
  ship do
    label set label
    send call POST https://ship.example
rest wait P30D
thanks set thanks
`

func drawTree(tree *taskTree, w, h int, now time.Time) string {
	c := canvas.New(w, h)
	tree.draw(c.All(), canvas.Theme{Palette: paletteOf(Dark)}, treeOptions{top: Row{Workflow: "shop"}, now: now, focus: true})
	return picture(c)
}

func treeOf(d *Document, s *story) *taskTree {
	tree := newTaskTree()
	tree.read(d)
	tree.add(s.events)
	return tree
}

func shopStory() *story {
	s := newStory()
	s.done("/do/0/reserve").begin("/do/0/pay").begin("/do/0/pay/try/0/charge").pass(300 * time.Millisecond)
	s.end("/do/0/pay/try/0/charge", Faulted, "503 Service Unavailable").wait("/do/0/pay", Retrying, time.Second).pass(time.Second)
	s.tell(Event{Type: "timer.fired", Ref: "/do/0/pay", State: Running})
	s.done("/do/0/pay/try/0/charge@1").end("/do/0/pay", Completed, "").begin("/do/0/each")
	for i := range 25 {
		s.begin(fmt.Sprintf("/do/0/each/do/0/pack#%d", i)).pass(2 * time.Second)
		if i == 7 {
			s.end("/do/0/each/do/0/pack#7", Skipped, "")
			continue
		}
		s.end(fmt.Sprintf("/do/0/each/do/0/pack#%d", i), Completed, "")
	}
	s.end("/do/0/each", Completed, "").begin("/do/0/both").begin("/do/0/both/fork/branches/0/mail")
	s.begin("/do/0/both/fork/branches/0/ship").done("/do/0/both/fork/branches/0/ship/do/0/label")
	return s
}

// The tree shows finished, running and planned tasks.
func TestTree(t *testing.T) {
	t.Parallel()
	d := documentOf(shop)
	fork := treeOf(d, shopStory())
	waits := shopStory()
	waits.begin("/do/0/both/fork/branches/0/ship/do/0/send").end("/do/0/both/fork/branches/0/ship/do/0/send", Cancelled, "")
	waits.end("/do/0/both/fork/branches/0/ship", Cancelled, "").end("/do/0/both/fork/branches/0/mail", Completed, "")
	waits.end("/do/0/both", Completed, "").begin("/do/0/rest").wait("/do/0/rest", Waiting, 30*24*time.Hour)
	compare(t, "tree-fork", drawTree(fork, 90, 34, start.Add(2*time.Minute)))
	compare(t, "tree-waits", drawTree(treeOf(d, waits), 90, 34, start.Add(2*time.Minute)))
	compare(t, "tree-narrow", drawTree(treeOf(d, waits), 40, 20, start.Add(2*time.Minute)))
	compare(t, "tree-none", drawTree(treeOf(d, &story{}), 80, 20, start))
	compare(t, "tree-no-document", drawTree(treeOf(nil, waits), 80, 34, start.Add(time.Minute)))

	fork.foldAll(allOpen)
	fork.To(12)
	compare(t, "tree-open", drawTree(fork, 90, 48, start.Add(2*time.Minute)))
	fork.foldAll(noneOpen)
	compare(t, "tree-closed", drawTree(fork, 90, 12, start.Add(2*time.Minute)))
	fork.foldAll(someOpen)
	fork.narrow("pack skip")
	compare(t, "tree-filter", drawTree(fork, 90, 8, start.Add(2*time.Minute)))
}

// Visits after a jump back, nested loops, functions and retried executions are in their places.
func TestTreeTurns(t *testing.T) {
	t.Parallel()
	d := documentOf(`
again do
  step set x
outer for a in .a
  before set x
  inner for b in .b
    use call function f
`)
	f := len(d.Tasks)
	d.Tasks = append(d.Tasks, Task{Ref: "/use/functions/f", Name: "f", Kind: "do", Children: []int{f + 1}}, Task{Ref: "/use/functions/f/do/0/deep", Name: "deep", Kind: "set"})
	d.Tasks[5].Children = []int{f}
	s := newStory()
	s.begin("/do/0/again").done("/do/0/again/do/0/step").done("/do/0/again/do/0/step#r0.r1").end("/do/0/again", Completed, "")
	s.begin("/do/0/outer")
	for a := range 2 {
		s.done(fmt.Sprintf("/do/0/outer/do/0/before#%d", a))
		s.begin(fmt.Sprintf("/do/0/outer/do/0/inner#%d", a))
		for b := range 2 {
			call := fmt.Sprintf("/do/0/outer/do/0/inner/do/0/use#%d.%d", a, b)
			in := fmt.Sprintf("#%d.%d./do/0/outer/do/0/inner/do/0/use", a, b)
			s.begin(call).begin("/use/functions/f" + in).begin("/use/functions/f/do/0/deep" + in)
			if a+b == 2 {
				break
			}
			s.end("/use/functions/f/do/0/deep"+in, Completed, "").end("/use/functions/f"+in, Completed, "").end(call, Completed, "")
		}
		if a == 0 {
			s.end("/do/0/outer/do/0/inner#0", Completed, "")
		}
	}
	in := "#1.1./do/0/outer/do/0/inner/do/0/use"
	s.end("/use/functions/f/do/0/deep"+in, Faulted, "no").end("/use/functions/f"+in, Faulted, "no")
	s.end("/do/0/outer/do/0/inner/do/0/use#1.1", Faulted, "no").end("/do/0/outer/do/0/inner#1", Faulted, "no").end("/do/0/outer", Faulted, "no")
	s.tell(Event{Type: "workflow.failed", State: Faulted, Text: "no"})
	s.pass(time.Minute).tell(Event{Type: "execution.retried", State: Running})
	failed := treeOf(d, s)
	s.begin("/use/functions/f/do/0/deep" + in + "@r1")
	tree := treeOf(d, s)
	compare(t, "tree-turns", drawTree(tree, 90, 30, start.Add(2*time.Minute)))
	tree.foldAll(allOpen)
	compare(t, "tree-turns-open", drawTree(tree, 90, 40, start.Add(2*time.Minute)))
	if len(failed.runs)+1 != len(tree.runs) || tree.runs[len(tree.runs)-1].parent() == 0 {
		t.Error("the run that is retried is not where it was")
	}
	for at, r := range tree.runs[1:] {
		if r.parent() < 0 || int(r.parent()) > at {
			t.Errorf("run %d is inside of %d", at+1, r.parent())
		}
	}
}

// The cursor stays on its line as lines are added before it, and moves to the line into which its
// line is folded.
func TestTreeCursor(t *testing.T) {
	t.Parallel()
	s := shopStory()
	tree := newTaskTree()
	tree.read(documentOf(shop))
	tree.add(s.events[:len(s.events)-30])
	drawTree(tree, 80, 10, start)
	for i, l := range tree.window.lines {
		if l.kind == runLine && tree.runs[l.run].Iteration == "12" {
			tree.To(i)
		}
	}
	chosen := func() string { return drawLineOf(tree) }
	before := chosen()
	tree.add(s.events)
	drawTree(tree, 80, 10, start)
	if got := chosen(); got != "[10] – [19]" && got != "[0] – [9]" && got != before {
		t.Errorf("after more has come the cursor is on %q, was on %q", got, before)
	}
	tree.setFollow(true)
	if at := tree.chosenRun(); at != tree.current {
		t.Errorf("following, the cursor is on run %d, want %d", at, tree.current)
	}
	tree.fold()
	tree.fold()
	if got := drawLineOf(tree); got != "ship" && got != "both" {
		t.Errorf("folded, the cursor is on %q", got)
	}
}

func drawLineOf(tree *taskTree) string {
	l := tree.chosen()
	text := tree.text(canvas.Theme{}, &l, &treeOptions{})
	return text.name
}

// A tree that has grown with its history equals the tree built from the whole history.
func TestTreeGrows(t *testing.T) {
	t.Parallel()
	s := shopStory()
	at := start.Add(time.Hour)
	grown := newTaskTree()
	grown.read(documentOf(shop))
	for i := range s.events {
		grown.add(s.events[i : i+1])
		drawTree(grown, 80, 30, at)
	}
	if got, want := drawTree(grown, 80, 60, at), drawTree(treeOf(documentOf(shop), s), 80, 60, at); got != want {
		t.Errorf("grown:\n%s\nat once:\n%s", got, want)
	}
	grown.reset()
	grown.add(s.events[:4])
	if got, want := drawTree(grown, 80, 60, at), drawTree(treeOf(documentOf(shop), &story{events: s.events[:4]}), 80, 60, at); got != want {
		t.Errorf("moved back:\n%s\nat once:\n%s", got, want)
	}
}

func loop(runs int) *story {
	s := newStory()
	s.begin("/do/0/each")
	for i := range runs {
		run := fmt.Sprintf("/do/0/each/do/0/pack#%d", i)
		s.begin(run).pass(time.Millisecond)
		if i%1000 == 999 {
			s.end(run, Faulted, "broken")
		} else {
			s.end(run, Completed, "")
		}
	}
	return s
}

// Many turns take few lines, and all of them can be reached.
func TestTreeOfManyTurns(t *testing.T) {
	t.Parallel()
	tree := treeOf(documentOf(shop), loop(54_322))
	compare(t, "tree-many", drawTree(tree, 90, 40, start.Add(2*time.Minute)))
	tree.setFollow(false)
	tree.To(4)
	tree.unfold()
	tree.Move(3)
	tree.unfold()
	compare(t, "tree-many-open", drawTree(tree, 90, 40, start.Add(2*time.Minute)))
	tree.narrow("fault")
	compare(t, "tree-many-filter", drawTree(tree, 90, 12, start.Add(2*time.Minute)))
	tree.Move(-2)
	tree.narrow("")
	if got, want := drawTree(tree, 90, 40, start.Add(2*time.Minute)), "pack["; !strings.Contains(got, "»") || !strings.Contains(drawLineOf(tree), want) {
		t.Errorf("what was found is not shown, but\n%s", got)
	}
	if tree.window.found != 54 {
		t.Errorf("%d runs have failed, want 54", tree.window.found)
	}
}

func BenchmarkTreeDraw(b *testing.B) {
	tree := treeOf(documentOf(shop), loop(100_000))
	c := canvas.New(80, 40)
	for b.Loop() {
		tree.changes++ // as if an event had arrived
		tree.draw(c.All(), canvas.Theme{}, treeOptions{now: start})
	}
}

func BenchmarkTreeAdd(b *testing.B) {
	s := loop(100_000)
	d := documentOf(shop)
	for b.Loop() {
		treeOf(d, s)
	}
	b.ReportMetric(float64(len(s.events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkTreeFilter(b *testing.B) {
	tree := treeOf(documentOf(shop), loop(100_000))
	c := canvas.New(80, 40)
	tree.narrow("broken")
	for b.Loop() {
		tree.changes++
		tree.draw(c.All(), canvas.Theme{}, treeOptions{now: start})
	}
}

// A turn that waits to be retried shows how long it has taken so far.
func TestRetryingTurn(t *testing.T) {
	t.Parallel()
	const get, put = "/do/0/each/do/0/get#0", "/do/0/each/do/0/put#0"
	s := newStory().begin("/do/0/each").begin(get).pass(time.Second).end(get, Completed, "")
	s.begin(put).wait(put, Retrying, time.Hour).pass(time.Minute)
	tree := treeOf(documentOf("each for\n  get call\n  put call"), s)
	tree.arrange()
	at := slices.IndexFunc(tree.window.lines, func(l treeLine) bool { return l.kind == turnLine })
	text := tree.text(canvas.Theme{}, &tree.window.lines[at], &treeOptions{now: s.at})
	if text.word != "retrying" || text.time != "1m01s" {
		t.Errorf("it is %s for %s, want retrying for 1m01s", text.word, text.time)
	}
}
