package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// helpPage shows the keys of the current screen.
type helpPage struct {
	title  string
	parts  []helpPart
	scroll scroll
}

type helpPart struct {
	title string
	hints []hint
}

// help returns the help of the current screen.
func (m *model) help() dialog {
	p := &helpPage{title: "Keys: " + m.whereabouts()}
	p.add("here", m.shown().hints())
	p.add("time", m.timeHints())
	p.add("everywhere", m.everywhere())
	p.add("mouse", []hint{{"click", "selects; on a place goes there", true}, {"twice", "opens", true}, {"wheel", "scrolls", true}})
	var words []hint
	for _, c := range m.commands() {
		words = append(words, hint{":" + strings.TrimSpace(c.name+" "+c.args), c.what, true})
	}
	p.add("commands", words)
	return p
}

func (p *helpPage) add(title string, hints []hint) {
	if len(hints) > 0 {
		p.parts = append(p.parts, helpPart{title, hints})
	}
}

func (*helpPage) take(tea.Msg)      {}
func (p *helpPage) wheel(lines int) { p.scroll.move(lines) }

func (p *helpPage) key(k string) (cmd tea.Cmd, open bool) { return nil, p.scroll.key(k) }

func (*helpPage) keyAt(int, int) string { return "esc" }

// draw shows the keys, in two columns if there is space.
func (p *helpPage) draw(a area, l look) {
	columns := 1
	if a.w >= 110 {
		columns = 2
	}
	room := min(a.w-6, 60*columns)
	lines := p.lines(columns)
	in := l.box(a, p.title, room, min(len(lines)+1, a.h-2))
	p.scroll.fit(len(lines), max(0, in.h-1))
	for y := range p.scroll.space {
		if at := p.scroll.offset + y; at < len(lines) {
			drawHints(in.part(0, y, in.w, 1), l, lines[at])
		}
	}
	x := in.put(0, in.h-1, faint, "any key closes") + 2
	in.put(x, in.h-1, faint, p.scroll.rest(l))
}

// helpLine is a title, or several keys side by side.
type helpLine struct {
	title string
	hints []hint
	of    int // number of keys side by side
	keys  int // width of the keys
}

func (p *helpPage) lines(columns int) []helpLine {
	var lines []helpLine
	for _, part := range p.parts {
		if len(lines) > 0 {
			lines = append(lines, helpLine{})
		}
		lines = append(lines, helpLine{title: part.title})
		keys := 12
		for _, h := range part.hints {
			keys = max(keys, width(h.keys))
		}
		for at := 0; at < len(part.hints); at += columns {
			lines = append(lines, helpLine{hints: part.hints[at:min(at+columns, len(part.hints))], of: columns, keys: keys})
		}
	}
	return lines
}

func drawHints(a area, l look, line helpLine) {
	if line.title != "" {
		a.put(0, 0, strong, line.title)
		return
	}
	for i, h := range line.hints {
		cell := a.part(i*a.w/line.of, 0, a.w/line.of-1, 1)
		cell.put(2, 0, accent|strong, h.keys)
		cell.put(line.keys+4, 0, plainInk, clip(h.what, cell.w-line.keys-4, l.more()))
	}
}
