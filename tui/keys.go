package tui

import (
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// press handles a key, or several characters that arrived together.
func (m *model) press(k tea.KeyMsg) tea.Cmd {
	if k.Alt && (k.Type == tea.KeyEsc || !m.typing()) {
		// No key is used together with alt: this one followed an escape quickly.
		k.Alt = false
		return tea.Batch(m.key("esc"), m.press(k))
	}
	if k.Type != tea.KeyRunes || k.Alt {
		return m.key(k.String())
	}
	if k.Paste && !m.typing() {
		return nil // pasted text is not a command
	}
	var cmds []tea.Cmd
	for _, r := range k.Runes {
		if k.Paste && r < ' ' {
			r = ' '
		}
		cmds = append(cmds, m.key(string(r)))
	}
	return tea.Batch(cmds...)
}

// typing reports whether characters are text.
func (m *model) typing() bool {
	if m.dialog != nil {
		t, ok := m.dialog.(typingScreen)
		return ok && t.typing()
	}
	t, ok := m.shown().(typingScreen)
	return ok && t.typing()
}

// key offers a key to the dialog, the text input, the time bar and the screen, in this order, and
// then handles the global keys.
func (m *model) key(k string) tea.Cmd {
	if k == "ctrl+c" {
		return tea.Quit
	}
	m.notice = notice{}
	if m.dialog != nil {
		return m.dialogKey(k)
	}
	if !m.typing() {
		if cmd, ok := m.timeKey(k); ok {
			return cmd
		}
	}
	if cmd, ok := m.shown().key(k); ok {
		return cmd
	}
	return m.globalKey(k)
}

// dialogKey passes a key to the dialog.
func (m *model) dialogKey(k string) tea.Cmd {
	before := m.dialog
	cmd, open := before.key(k)
	if !open && m.dialog == before {
		m.dialog = nil
	}
	return cmd
}

// globalKey handles the global keys.
func (m *model) globalKey(k string) tea.Cmd {
	switch k {
	case "q":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "ctrl+l":
		return tea.ClearScreen
	case "?":
		m.dialog = m.help()
	case ":":
		m.dialog = &commandLine{m: m, all: m.commands()}
	case "L":
		return m.toggleZone()
	case "r":
		return m.readAgain()
	case "esc", "backspace":
		return m.back()
	case "e":
		if can(m.source, Emit) {
			return m.act(Action{Verb: Emit})
		}
	case "1", "2", "3", "4", "5":
		return m.openPlace(int(k[0] - '1'))
	}
	return nil
}

// globalHints returns the global keys.
func (m *model) globalHints() []hint {
	all := []hint{
		{"1–5", "go to a place", true},
		{"esc", "back", true},
		{"tab", "next part of the screen", true},
		{"y", "copy the value at the cursor", true},
		{"Y", "copy the id of the execution", true},
		{"L", "times in UTC or local", true},
		{"r", "read again", true},
		{":", "type a command", true},
		{"e", "emit an event", true},
		{"ctrl+l", "draw again", true},
		{"?", "these keys", true},
		{"q", "quit", true},
	}
	if can(m.source, Emit) {
		return all
	}
	return slices.DeleteFunc(all, func(h hint) bool { return h.keys == "e" })
}

// click is the last click.
type click struct {
	x, y int
	at   time.Time
}

// twice is the maximum interval of a double click.
const twice = 400 * time.Millisecond

// notches is the number of lines per wheel step.
const notches = 3

// mouse handles mouse events.
func (m *model) mouse(e tea.MouseEvent) tea.Cmd {
	switch {
	case e.Button == tea.MouseButtonWheelUp:
		return m.wheel(-notches)
	case e.Button == tea.MouseButtonWheelDown:
		return m.wheel(notches)
	case e.Action == tea.MouseActionPress && e.Button == tea.MouseButtonLeft:
		return m.click(e.X, e.Y)
	case e.Action == tea.MouseActionMotion && e.Button == tea.MouseButtonLeft && e.Y == m.height-2:
		return m.scrubTo(e.X)
	}
	return nil
}

func (m *model) wheel(lines int) tea.Cmd {
	if m.dialog != nil {
		m.dialog.wheel(lines)
		return nil
	}
	m.shown().wheel(lines)
	return m.refreshShown()
}

func (m *model) click(x, y int) tea.Cmd {
	now := m.options.Now()
	double := m.lastClick.x == x && m.lastClick.y == y && now.Sub(m.lastClick.at) <= twice
	m.lastClick = click{x, y, now}
	if double {
		m.lastClick.at = time.Time{}
	}
	switch {
	case m.dialog != nil:
		if d, ok := m.dialog.(clickable); ok && d.keyAt(x, y) != "" {
			return m.dialogKey(d.keyAt(x, y))
		}
	case y == 0:
		for i, tab := range m.tabs {
			if x >= tab.from && x < tab.to {
				return m.openPlace(i)
			}
		}
	case m.body(canvas.Area{W: m.width, H: m.height}).Holds(x, y):
		return m.shown().click(x, y, double)
	case m.overview.Clock.Moves && y == m.height-2:
		return m.scrubTo(x)
	}
	return nil
}

// scrubTo goes to the time of a position on the time bar.
func (m *model) scrubTo(x int) tea.Cmd {
	if to, ok := m.bar.at(x); ok && m.overview.Clock.Seeks {
		return m.move(to)
	}
	return nil
}

// helpPage shows the keys of the current screen.
type helpPage struct {
	title  string
	parts  []helpPart
	scroll canvas.Scroll
}

type helpPart struct {
	title string
	hints []hint
}

// help returns the help of the current screen.
func (m *model) help() dialog {
	p := &helpPage{title: "Keys: " + m.breadcrumb()}
	p.add("here", m.shown().hints())
	p.add("time", m.timeHints())
	p.add("everywhere", m.globalHints())
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

func (p *helpPage) wheel(lines int) { p.scroll.Move(lines) }

func (p *helpPage) key(k string) (cmd tea.Cmd, open bool) { return nil, p.scroll.Key(k) }

func (*helpPage) keyAt(int, int) string { return "esc" }

// draw shows the keys, in two columns if there is space.
func (p *helpPage) draw(a canvas.Area, theme canvas.Theme) {
	columns := 1
	if a.W >= 110 {
		columns = 2
	}
	width := min(a.W-6, 60*columns)
	lines := p.lines(columns)
	foot := p.scroll.Box(a, theme, p.title, width, len(lines), 1, func(line canvas.Area, at int) { drawHints(line, theme, lines[at]) })
	foot.Put(foot.Put(0, 0, canvas.Faint, closingKey(&p.scroll, "closes"))+2, 0, canvas.Faint, p.scroll.Below(theme))
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
			keys = max(keys, canvas.Width(h.keys))
		}
		for at := 0; at < len(part.hints); at += columns {
			lines = append(lines, helpLine{hints: part.hints[at:min(at+columns, len(part.hints))], of: columns, keys: keys})
		}
	}
	return lines
}

func drawHints(a canvas.Area, theme canvas.Theme, line helpLine) {
	if line.title != "" {
		a.Put(0, 0, canvas.Strong, line.title)
		return
	}
	for i, h := range line.hints {
		cell := a.Part(i*a.W/line.of, 0, a.W/line.of-1, 1)
		cell.Put(2, 0, canvas.Accent|canvas.Strong, h.keys)
		cell.Put(line.keys+4, 0, canvas.Normal, canvas.Clip(h.what, cell.W-line.keys-4, theme.More()))
	}
}
