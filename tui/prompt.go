package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// dialog is drawn over a screen until the user closes it.
type dialog interface {
	draw(a canvas.Area, theme canvas.Theme)
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
	taken func(text string) (cmd tea.Cmd, problem string)
}

// prompt asks a question.
type prompt struct {
	question

	field   canvas.Input
	problem string
}

// askAgain asks for an action's input again after an invalid answer, and suggests that answer.
func (m *model) askAgain(c *confirmation) (*prompt, bool) {
	typed := c.action
	typed.Text = ""
	q, ok := m.missing(typed)
	if c.action.Text == "" || !ok {
		return nil, false
	}
	if q.text != c.action.Text {
		q.text, q.ahead = c.action.Text, 0
	}
	p := newPrompt(q)
	p.problem = c.problem
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
		cmd, p.problem = p.taken(p.field.Text())
		return cmd, p.problem != ""
	}
	p.problem = ""
	p.field.Key(k)
	return nil, true
}

func (p *prompt) draw(a canvas.Area, theme canvas.Theme) {
	width := min(max(40, a.W-12), 90, a.W-4)
	var lines []string
	for _, text := range p.about {
		lines = append(lines, canvas.Wrapped(text, width)...)
	}
	problem := canvas.Wrapped(p.problem, width)
	in := theme.Box(a, p.title, width, len(lines)+2+max(2, len(problem)))
	for y, line := range lines {
		in.Put(0, y, canvas.Normal, line)
	}
	y := len(lines)
	in.Put(0, y, canvas.Accent, theme.Pick("› ", "> "))
	p.field.Draw(in.Part(2, y, in.W-2, 1), 0, 0)
	if p.problem != "" {
		for i, line := range problem {
			in.Put(0, y+1+i, canvas.Bad, line)
		}
		return
	}
	in.Put(0, y+2, canvas.Faint, "enter continues, esc cancels")
}

// confirmation describes what an action will do, and asks to confirm it.
type confirmation struct {
	m      *model
	action Action

	made    bool
	planned Plan
	problem string
	scroll  canvas.Scroll
	buttons []button
}

// plan asks the source what the action will do.
func (c *confirmation) plan() tea.Cmd {
	action := c.action
	return ask(nil, func(ctx context.Context) (func() tea.Cmd, error) {
		plan, err := c.m.source.Plan(ctx, action)
		return func() tea.Cmd {
			c.m.planned(c, plan, err)
			return nil
		}, err
	})
}

func (c *confirmation) wheel(lines int) { c.scroll.Move(lines) }

// key handles the answer. Enter alone does not confirm what loses something.
func (c *confirmation) key(k string) (cmd tea.Cmd, open bool) {
	if c.scroll.Key(k) {
		return nil, true
	}
	ready := c.made && c.problem == ""
	switch {
	case k == "esc" || k == "n" || k == "q" || k == "backspace":
		return nil, false
	case ready && (k == "y" || k == "enter" && c.planned.Warning == ""):
		c.action.Force = c.planned.Warning != ""
		return c.m.perform(c.action), false
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

func (c *confirmation) draw(a canvas.Area, theme canvas.Theme) {
	width := min(max(40, a.W-12), 100, a.W-4)
	text, style := c.lines(width)
	c.drawButtons(c.scroll.Box(a, theme, sentence(c.action), width, len(text), 2, func(line canvas.Area, at int) {
		line.Put(0, 0, style[at], text[at])
	}), theme)
}

// lines returns the text of the dialog and its styles.
func (c *confirmation) lines(width int) (text []string, style []canvas.Style) {
	add := func(i canvas.Style, lines ...string) {
		for _, line := range lines {
			for _, part := range canvas.Wrapped(line, width) {
				text, style = append(text, part), append(style, i)
			}
		}
	}
	switch {
	case !c.made:
		add(canvas.Faint, "checking what will happen")
	case c.problem != "":
		add(canvas.Bad, c.problem)
	default:
		add(canvas.Normal, c.planned.Lines...)
		if c.planned.Warning != "" {
			add(canvas.Warn|canvas.Strong, c.planned.Warning)
		}
	}
	return text, style
}

// drawButtons draws the buttons.
func (c *confirmation) drawButtons(foot canvas.Area, theme canvas.Theme) {
	if !c.made || c.problem != "" {
		text := "esc cancels"
		if c.made {
			text = "esc closes"
		}
		x := foot.Put(0, 0, canvas.Faint, text)
		c.buttons = []button{{foot.Part(0, 0, x, 1), "esc"}}
		return
	}
	yes, style := " y yes ", canvas.Good
	if c.planned.Warning != "" {
		yes, style = " y yes, do it ", canvas.Bad
	}
	x := foot.Put(0, 0, style|canvas.Selected, yes)
	end := foot.Put(x+2, 0, canvas.Normal|canvas.Selected, " n no ")
	c.buttons = []button{{foot.Part(0, 0, x, 1), "y"}, {foot.Part(x+2, 0, end-x-2, 1), "n"}}
	foot.Put(end+2, 0, canvas.Faint, c.scroll.Below(theme))
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

func (r *message) draw(a canvas.Area, theme canvas.Theme) {
	width := min(max(40, a.W-12), 100, a.W-4)
	lines, style := canvas.Wrapped(r.text, width), canvas.Normal
	if r.bad {
		style = canvas.Bad
	}
	foot := r.scroll.Box(a, theme, r.title, width, len(lines), 2, func(line canvas.Area, at int) {
		line.Put(0, 0, style, lines[at])
	})
	foot.Put(foot.Put(0, 0, canvas.Faint, closingKey(&r.scroll, "continues"))+2, 0, canvas.Faint, r.scroll.Below(theme))
}

// closingKey says which key closes a text: some keys scroll one that does not fit.
func closingKey(s *canvas.Scroll, what string) string {
	if s.Scrolls() {
		return "esc " + what
	}
	return "any key " + what
}
