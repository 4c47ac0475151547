package tui

import tea "github.com/charmbracelet/bubbletea"

// question is something that is to be typed.
type question struct {
	title string
	about []string
	text  string // to begin with
	ahead int    // characters of it behind the cursor
	// taken takes what was typed, or says what is wrong with it.
	taken func(text string) (cmd tea.Cmd, wrong string)
}

// prompt asks a question.
type prompt struct {
	question

	field field
	wrong string
}

// askOnce asks once more for what has turned out wrong, beginning with it.
func askOnce(c *confirmation) (*prompt, bool) {
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
	p.field.set(q.text)
	p.field.at = max(0, p.field.at-q.ahead)
	return p
}

func (*prompt) typing() bool { return true }
func (*prompt) wheel(int)    {}
func (*prompt) take(tea.Msg) {}

func (p *prompt) key(k string) (cmd tea.Cmd, open bool) {
	switch k {
	case "esc":
		return nil, false
	case "enter":
		cmd, p.wrong = p.taken(p.field.text())
		return cmd, p.wrong != ""
	}
	p.wrong = ""
	p.field.key(k)
	return nil, true
}

func (p *prompt) draw(a area, l look) {
	room := min(max(40, a.w-12), 90, a.w-4)
	var lines []string
	for _, text := range p.about {
		lines = append(lines, wrapped(text, room)...)
	}
	wrong := wrapped(p.wrong, room)
	in := l.box(a, p.title, room, len(lines)+2+max(2, len(wrong)))
	for y, line := range lines {
		in.put(0, y, plainInk, line)
	}
	y := len(lines)
	in.put(0, y, accent, l.pick("› ", "> "))
	p.field.draw(in.part(2, y, in.w-2, 1), 0, 0)
	if p.wrong != "" {
		for i, line := range wrong {
			in.put(0, y+1+i, bad, line)
		}
		return
	}
	in.put(0, y+2, faint, "enter goes on, esc leaves it")
}
