package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// dialog is drawn over a screen until the user closes it.
type dialog interface {
	draw(a canvas.Area, l canvas.Look)
	// key handles a key; the dialog closes when open is false.
	key(k string) (cmd tea.Cmd, open bool)
	wheel(lines int)
}

// clickable is a dialog in which a click can mean a key.
type clickable interface{ keyAt(x, y int) string }

// button is an area where a click means a key.
type button struct {
	at  canvas.Area
	key string
}

// question is a question that the user answers by typing.
type question struct {
	title string
	about []string
	text  string // the suggested answer
	ahead int    // number of its characters after the cursor
	// taken takes the answer, or explains what is wrong with it.
	taken func(text string) (cmd tea.Cmd, wrong string)
}

// prompt asks a question.
type prompt struct {
	question

	field canvas.Input
	wrong string
}

// askAgain asks for an action's input again after an invalid answer, and suggests that answer.
func askAgain(c *confirmation) (*prompt, bool) {
	typed := c.action
	typed.Text = ""
	q, ok := missing(typed)
	if c.action.Text == "" || !ok {
		return nil, false
	}
	if q.text != c.action.Text {
		q.text, q.ahead = c.action.Text, 0
	}
	p := newPrompt(q)
	p.wrong = c.wrong
	return p, true
}

func newPrompt(q question) *prompt {
	p := &prompt{question: q}
	p.field.Set(q.text)
	p.field.At = max(0, p.field.At-q.ahead)
	return p
}

func (*prompt) typing() bool { return true }
func (*prompt) wheel(int)    {}

func (p *prompt) key(k string) (cmd tea.Cmd, open bool) {
	switch k {
	case "esc":
		return nil, false
	case "enter":
		cmd, p.wrong = p.taken(p.field.Text())
		return cmd, p.wrong != ""
	}
	p.wrong = ""
	p.field.Key(k)
	return nil, true
}

func (p *prompt) draw(a canvas.Area, l canvas.Look) {
	avail := min(max(40, a.W-12), 90, a.W-4)
	var lines []string
	for _, text := range p.about {
		lines = append(lines, canvas.Wrapped(text, avail)...)
	}
	wrong := canvas.Wrapped(p.wrong, avail)
	in := l.Box(a, p.title, avail, len(lines)+2+max(2, len(wrong)))
	for y, line := range lines {
		in.Put(0, y, canvas.Normal, line)
	}
	y := len(lines)
	in.Put(0, y, canvas.Accent, l.Pick("› ", "> "))
	p.field.Draw(in.Part(2, y, in.W-2, 1), 0, 0)
	if p.wrong != "" {
		for i, line := range wrong {
			in.Put(0, y+1+i, canvas.Bad, line)
		}
		return
	}
	in.Put(0, y+2, canvas.Faint, "enter continues, esc cancels")
}

// confirmation describes what an action will do, and asks to confirm it.
type confirmation struct {
	action Action
	source Source

	made    bool
	planned Plan
	wrong   string
	scroll  canvas.Scroll
	buttons []button
}

// planMade is the response to a request for a plan.
type planMade struct {
	of   *confirmation
	plan Plan
	err  error
}

func (p planMade) failed() error { return p.err }

// plan asks the source what the action will do.
func (c *confirmation) plan() tea.Cmd {
	return ask(func(ctx context.Context) tea.Msg {
		p, err := c.source.Plan(ctx, c.action)
		return planMade{c, p, err}
	})
}

func (c *confirmation) take(r planMade) {
	c.made, c.planned = true, r.plan
	if r.err != nil {
		c.wrong = r.err.Error()
	}
}

func (c *confirmation) wheel(lines int) { c.scroll.Move(lines) }

// key handles the answer. Enter alone does not confirm what cannot be undone.
func (c *confirmation) key(k string) (cmd tea.Cmd, open bool) {
	if c.scroll.Key(k) {
		return nil, true
	}
	ready := c.made && c.wrong == ""
	switch {
	case k == "esc" || k == "n" || k == "q" || k == "backspace":
		return nil, false
	case ready && (k == "y" || k == "enter" && !c.planned.Danger):
		c.action.Force = c.planned.Danger
		return tea.Batch(give(wantNotice{text: "doing it: " + sentence(c.action)}), perform(c.source, c.action)), false
	case c.made && !ready && k == "enter":
		return nil, false
	}
	return nil, true
}

func (c *confirmation) keyAt(x, y int) string {
	for _, b := range c.buttons {
		if b.at.Holds(x, y) {
			return b.key
		}
	}
	return ""
}

func (c *confirmation) draw(a canvas.Area, l canvas.Look) {
	avail := min(max(40, a.W-12), 100, a.W-4)
	text, how := c.lines(avail)
	c.drawButtons(c.scroll.Box(a, l, sentence(c.action), avail, len(text), 2, func(line canvas.Area, at int) {
		line.Put(0, 0, how[at], text[at])
	}), l)
}

// lines returns the text of the dialog and its styles.
func (c *confirmation) lines(avail int) (text []string, how []canvas.Style) {
	add := func(i canvas.Style, lines ...string) {
		for _, line := range lines {
			for _, part := range canvas.Wrapped(line, avail) {
				text, how = append(text, part), append(how, i)
			}
		}
	}
	switch {
	case !c.made:
		add(canvas.Faint, "checking what will happen")
	case c.wrong != "":
		add(canvas.Bad, c.wrong)
	default:
		if c.action.Table == DeadLetters && (c.action.Verb == Replay || c.action.Verb == Drop) {
			add(canvas.Faint, "A dry run; nothing is changed yet:")
		}
		add(canvas.Normal, c.planned.Lines...)
		if c.planned.Danger {
			add(canvas.Warn|canvas.Strong, "This cannot be undone.")
		}
	}
	return text, how
}

// drawButtons draws the buttons.
func (c *confirmation) drawButtons(foot canvas.Area, l canvas.Look) {
	if !c.made || c.wrong != "" {
		text := "esc cancels"
		if c.made {
			text = "esc closes"
		}
		x := foot.Put(0, 0, canvas.Faint, text)
		c.buttons = []button{{foot.Part(0, 0, x, 1), "esc"}}
		return
	}
	yes, how := " y yes ", canvas.Good
	if c.planned.Danger {
		yes, how = " y yes, do it ", canvas.Bad
	}
	x := foot.Put(0, 0, how|canvas.Selected, yes)
	end := foot.Put(x+2, 0, canvas.Normal|canvas.Selected, " n no ")
	c.buttons = []button{{foot.Part(0, 0, x, 1), "y"}, {foot.Part(x+2, 0, end-x-2, 1), "n"}}
	foot.Put(end+2, 0, canvas.Faint, c.scroll.Below(l))
}

// message is a dialog for a message that is too long for one line.
type message struct {
	title, text string
	bad         bool
	scroll      canvas.Scroll
}

func (r *message) wheel(lines int) { r.scroll.Move(lines) }

func (r *message) key(k string) (cmd tea.Cmd, open bool) { return nil, r.scroll.Key(k) }

func (*message) keyAt(int, int) string { return "esc" }

func (r *message) draw(a canvas.Area, l canvas.Look) {
	avail := min(max(40, a.W-12), 100, a.W-4)
	lines, how := canvas.Wrapped(r.text, avail), canvas.Normal
	if r.bad {
		how = canvas.Bad
	}
	foot := r.scroll.Box(a, l, r.title, avail, len(lines), 2, func(line canvas.Area, at int) {
		line.Put(0, 0, how, lines[at])
	})
	foot.Put(foot.Put(0, 0, canvas.Faint, "any key continues")+2, 0, canvas.Faint, r.scroll.Below(l))
}
