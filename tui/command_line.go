package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// commandLine is the input of a command.
type commandLine struct {
	field  field
	all    []command
	before []string
	back   int // position in the history
}

func newCommandLine(m *model) *commandLine {
	return &commandLine{all: m.commands(), before: m.typed.lines}
}

func (*commandLine) typing() bool { return true }
func (*commandLine) wheel(int)    {}
func (*commandLine) take(tea.Msg) {}

func (c *commandLine) key(k string) (cmd tea.Cmd, open bool) {
	switch k {
	case "esc":
		return nil, false
	case "backspace":
		if c.field.text() == "" {
			return nil, false
		}
	case "enter":
		return give(wantCommand{c.field.text()}), false
	case "tab":
		c.complete()
		return nil, true
	case "up":
		c.recall(1)
		return nil, true
	case "down":
		c.recall(-1)
		return nil, true
	}
	c.field.key(k)
	return nil, true
}

// recall shows an earlier command.
func (c *commandLine) recall(step int) {
	c.back = max(0, min(len(c.before), c.back+step))
	if c.back == 0 {
		c.field.set("")
		return
	}
	c.field.set(c.before[len(c.before)-c.back])
}

// complete completes the name of a command.
func (c *commandLine) complete() {
	if found := c.found(); len(found) > 0 && !strings.Contains(c.field.text(), " ") {
		c.field.set(found[0].name + " ")
	}
}

func (c *commandLine) found() []command {
	name, _, _ := strings.Cut(c.field.text(), " ")
	return matching(c.all, name)
}

// draw draws the line at the bottom, with completions above it.
func (c *commandLine) draw(a area, l look) {
	found := c.found()
	rows := max(0, min(len(found), a.h-4, 24))
	list := a.part(0, a.h-2-rows, a.w, rows+1)
	list.clear()
	l.rule(list, 0, "commands", accent)
	for y := range rows {
		how := plainInk
		if y == 0 && c.field.text() != "" {
			how = strong
		}
		x := list.put(1, y+1, accent|how, found[y].name)
		list.put(x+1, y+1, plainInk, found[y].args)
		list.put(24, y+1, faint, clip(found[y].what, list.w-24, l.more()))
	}
	line := a.part(0, a.h-1, a.w, 1)
	line.clear()
	line.put(0, 0, accent|strong, ":")
	c.field.draw(line, 1, 0)
}
