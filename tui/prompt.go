package tui

import (
	"context"
	"slices"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"
)

// question is a question that the user answers by typing.
type question struct {
	title string
	about []string
	text  string // the suggested answer
	ahead int    // number of its characters after the cursor
	// taken takes the answer, or says what is wrong with it.
	taken func(text string) (cmd tea.Cmd, wrong string)
}

// prompt asks a question.
type prompt struct {
	question

	field field
	wrong string
}

// askOnce asks again after a wrong answer, and suggests that answer.
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
	avail := min(max(40, a.w-12), 90, a.w-4)
	var lines []string
	for _, text := range p.about {
		lines = append(lines, wrapped(text, avail)...)
	}
	wrong := wrapped(p.wrong, avail)
	in := l.box(a, p.title, avail, len(lines)+2+max(2, len(wrong)))
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

// confirmation describes what an action will do, and asks to confirm it.
type confirmation struct {
	action Action
	source Source

	made    bool
	planned Plan
	wrong   string
	scroll  scroll
	buttons []button
}

// planMade is the answer to a request for a plan.
type planMade struct {
	of   *confirmation
	plan Plan
	err  error
}

func (p planMade) failed() error { return p.err }

func newConfirmation(a Action) *confirmation { return &confirmation{action: a} }

// plan asks the source what the action will do.
func (c *confirmation) plan(source Source) tea.Cmd {
	c.source = source
	return ask(func(ctx context.Context) tea.Msg {
		p, err := source.Plan(ctx, c.action)
		return planMade{c, p, err}
	})
}

func (c *confirmation) take(msg tea.Msg) {
	r, ok := msg.(planMade)
	if !ok || r.of != c {
		return
	}
	c.made, c.planned = true, r.plan
	if r.err != nil {
		c.wrong = r.err.Error()
	}
}

func (c *confirmation) wheel(lines int) { c.scroll.move(lines) }

// key handles the answer. Enter alone does not confirm what cannot be undone.
func (c *confirmation) key(k string) (cmd tea.Cmd, open bool) {
	if c.scroll.key(k) {
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
		if b.at.holds(x, y) {
			return b.key
		}
	}
	return ""
}

func (c *confirmation) draw(a area, l look) {
	avail := min(max(40, a.w-12), 100, a.w-4)
	text, how := c.lines(avail)
	in := l.box(a, sentence(c.action), avail, min(len(text)+2, a.h-2))
	c.scroll.fit(len(text), max(0, in.h-2))
	for y := range c.scroll.space {
		if at := c.scroll.offset + y; at < len(text) {
			in.put(0, y, how[at], text[at])
		}
	}
	c.answers(in, l)
}

// lines returns the text of the dialog and its inks.
func (c *confirmation) lines(avail int) (text []string, how []ink) {
	add := func(i ink, lines ...string) {
		for _, line := range lines {
			for _, part := range wrapped(line, avail) {
				text, how = append(text, part), append(how, i)
			}
		}
	}
	switch {
	case !c.made:
		add(faint, "finding out what will happen")
	case c.wrong != "":
		add(bad, c.wrong)
	default:
		if c.action.Table == DeadLetters && (c.action.Verb == Replay || c.action.Verb == Drop) {
			add(faint, "A dry run; nothing is changed yet:")
		}
		add(plainInk, c.planned.Lines...)
		if c.planned.Danger {
			add(warn|strong, "This cannot be undone.")
		}
	}
	return text, how
}

// answers draws the keys that answer.
func (c *confirmation) answers(in area, l look) {
	y := in.h - 1
	if !c.made || c.wrong != "" {
		x := in.put(0, y, faint, "esc leaves it")
		c.buttons = []button{{in.part(0, y, x, 1), "esc"}}
		return
	}
	yes, how := " y yes ", good
	if c.planned.Danger {
		yes, how = " y yes, do it ", bad
	}
	x := in.put(0, y, how|selected, yes)
	end := in.put(x+2, y, plainInk|selected, " n no ")
	c.buttons = []button{{in.part(0, y, x, 1), "y"}, {in.part(x+2, y, end-x-2, 1), "n"}}
	in.put(end+2, y, faint, c.scroll.rest(l))
}

// reading is a dialog with a text that is too long for a line.
type reading struct {
	title, text string
	bad         bool
	scroll      scroll
}

func (*reading) take(tea.Msg)      {}
func (r *reading) wheel(lines int) { r.scroll.move(lines) }

func (r *reading) key(k string) (cmd tea.Cmd, open bool) { return nil, r.scroll.key(k) }

func (*reading) keyAt(int, int) string { return "esc" }

func (r *reading) draw(a area, l look) {
	avail := min(max(40, a.w-12), 100, a.w-4)
	lines := wrapped(r.text, avail)
	in := l.box(a, r.title, avail, min(len(lines)+2, a.h-2))
	r.scroll.fit(len(lines), max(0, in.h-2))
	how := plainInk
	if r.bad {
		how = bad
	}
	for y := range r.scroll.space {
		if at := r.scroll.offset + y; at < len(lines) {
			in.put(0, y, how, lines[at])
		}
	}
	in.put(in.put(0, in.h-1, faint, "any key goes on")+2, in.h-1, faint, r.scroll.rest(l))
}

// field is a text input of one line.
type field struct {
	runes []rune
	at    int
}

func (f *field) text() string { return string(f.runes) }

func (f *field) set(text string) {
	f.runes = []rune(text)
	f.at = len(f.runes)
}

// key handles a key; other keys do nothing.
func (f *field) key(k string) {
	switch k {
	case "left", "ctrl+b":
		f.at = max(0, f.at-1)
	case "right", "ctrl+f":
		f.at = min(len(f.runes), f.at+1)
	case "home", "ctrl+a":
		f.at = 0
	case "end", "ctrl+e":
		f.at = len(f.runes)
	case "backspace", "ctrl+h":
		f.cut(f.at-1, f.at)
	case "delete", "ctrl+d":
		f.cut(f.at, f.at+1)
	case "ctrl+u":
		f.set("")
	case "ctrl+k":
		f.cut(f.at, len(f.runes))
	case "ctrl+w", "alt+backspace":
		f.cut(f.word(), f.at)
	default:
		f.insert(k)
	}
}

// insert inserts a character.
func (f *field) insert(k string) {
	r, size := utf8.DecodeRuneInString(k)
	if size == 0 || size != len(k) || r < ' ' || r == 0x7f {
		return
	}
	f.runes = slices.Insert(f.runes, f.at, r)
	f.at++
}

func (f *field) cut(from, to int) {
	from, to = max(0, from), min(len(f.runes), to)
	if from < to {
		f.runes = slices.Delete(f.runes, from, to)
		f.at = from
	}
}

// word returns the start of the word before the cursor.
func (f *field) word() int {
	at := f.at
	for at > 0 && f.runes[at-1] == ' ' {
		at--
	}
	for at > 0 && f.runes[at-1] != ' ' {
		at--
	}
	return at
}

// draw draws the visible part of the text, and the cursor.
func (f *field) draw(a area, x, y int) {
	avail, from := a.w-x, 0
	for from < f.at && width(string(f.runes[from:f.at])) >= avail {
		from++
	}
	end := a.put(x, y, plainInk, string(f.runes[from:]))
	at := x + width(string(f.runes[from:f.at]))
	under := " "
	if f.at < len(f.runes) {
		under = clip(string(f.runes[f.at:f.at+1]), max(1, a.w-at), "")
	}
	a.put(at, y, selected, under)
	for ; end < a.w; end++ {
		if end != at {
			a.put(end, y, plainInk, " ")
		}
	}
}
