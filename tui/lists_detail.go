package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// detailPane shows a row in full.
type detailPane struct {
	source Source
	table  Table

	id      string // of the row shown
	detail  Detail
	loaded  bool
	problem string
	view    dataView

	flying bool
	readAt time.Time
	focus  bool
	viewAt area
}

// detailRead is the answer to a request for a detail.
type detailRead struct {
	pane   *detailPane
	id     string
	detail Detail
	err    error
}

func (r detailRead) failed() error { return r.err }

func newDetailPane(source Source, table Table) *detailPane {
	return &detailPane{source: source, table: table}
}

// rereadDetail is the polling interval of a detail.
const rereadDetail = 3 * time.Second

// follow reads the detail of the row at the cursor.
func (p *detailPane) follow(row Row, now time.Time) tea.Cmd {
	same := row.ID == p.id
	if p.flying || row.ID == "" || same && now.Sub(p.readAt) < rereadDetail {
		return nil
	}
	if !same {
		p.detail, p.loaded, p.problem = Detail{}, false, ""
		p.view.set("")
	}
	p.id, p.flying, p.readAt = row.ID, true, now
	source, table, id := p.source, p.table, row.ID
	return ask(func(ctx context.Context) tea.Msg {
		detail, err := detailOf(ctx, source, table, id)
		return detailRead{p, id, detail, err}
	})
}

// detailOf reads a row in full.
func detailOf(ctx context.Context, source Source, table Table, id string) (Detail, error) {
	if table != Executions {
		return source.Detail(ctx, table, id)
	}
	e, err := source.Execution(ctx, id)
	d := e.Detail
	for _, wait := range e.Waits {
		d.Facts = append(d.Facts, [2]string{"waits", wait})
	}
	if e.Problem != "" {
		d.Facts = append(d.Facts, [2]string{"problem", e.Problem})
	}
	return d, err
}

func (p *detailPane) take(r detailRead) {
	if r.pane != p {
		return
	}
	p.flying = false
	if r.id != p.id {
		return
	}
	if r.err != nil {
		p.problem = r.err.Error()
		return
	}
	p.detail, p.loaded, p.problem = r.detail, true, ""
	p.view.set(joined(r.detail.Data))
}

// joined merges several values into one, so that they fold as one.
func joined(all []Data) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0].Text
	}
	var b bytes.Buffer
	for i, d := range all {
		b.WriteByte("{,"[min(i, 1)])
		name, _ := json.Marshal(d.Name) //nolint:errchkjson // a string
		b.Write(name)
		b.WriteByte(':')
		if json.Valid([]byte(d.Text)) {
			b.WriteString(d.Text)
			continue
		}
		text, _ := json.Marshal(d.Text) //nolint:errchkjson // a string
		b.Write(text)
	}
	b.WriteByte('}')
	return b.String()
}

// key handles the keys of the pane while it has the focus.
func (p *detailPane) key(k string) bool {
	v := &p.view
	switch k {
	case "up", "k":
		v.move(-1)
	case "down", "j":
		v.move(1)
	case "pgup", "ctrl+b", "ctrl+u":
		v.move(-v.height)
	case "pgdown", "ctrl+f", "ctrl+d":
		v.move(v.height)
	case "home", "g":
		v.to(0)
	case "end", "G":
		v.end()
	case "left", "h":
		v.fold(false)
	case "right", "l":
		v.fold(true)
	case "enter":
		v.turnFold()
	case "esc", "backspace":
		p.focus = false
	default:
		return false
	}
	return true
}

// hints returns the keys of the focused pane, in addition to those of the table.
func (p *detailPane) hints(opens bool) []hint {
	hints := []hint{{"tab", "to the table", false}, {"esc", "to the table", true}}
	if len(p.view.lines) > 0 {
		hints = append(hints, hint{"↑ ↓", "line", false}, hint{"y", "copy the value", false})
	}
	if p.view.folds() {
		hints = append(hints, hint{"← →", "fold", false}, hint{"enter", "fold or unfold", true})
	}
	if opens {
		hints = append(hints, hint{"o", "open its execution", false})
	}
	return hints
}

// copied returns the value at the cursor, or the id if there is none.
func (p *detailPane) copied() wantCopy {
	if what, text := p.view.value(); text != "" {
		return wantCopy{what, text}
	}
	return wantCopy{"id of the " + p.table.one(), p.id}
}

// click puts the cursor on a line, and folds it.
func (p *detailPane) click(x, y int, double bool) {
	at := y - p.viewAt.y
	if p.viewAt.h == 0 || at < 0 || x < 0 {
		return
	}
	p.view.to(p.view.offset + at)
	if double {
		p.view.turnFold()
	}
}

// draw draws the facts, and the data below them.
func (p *detailPane) draw(a area, l look, now time.Time) {
	how := faint
	if p.focus {
		how = accent
	}
	l.rule(a, 0, p.table.one()+" "+p.id, how)
	y := 1
	switch {
	case p.problem != "":
		for _, line := range wrapped(p.problem, a.w-2) {
			a.put(1, y, bad, line)
			y++
		}
	case !p.loaded:
		a.put(1, y, faint, "reading")
	}
	y = p.facts(a, l, y, now)
	if len(p.detail.Data) == 0 || y >= a.h {
		p.viewAt = area{}
		return
	}
	l.rule(a, y, p.names(), how)
	p.viewAt = a.part(1, y+1, a.w-1, a.h-y-1)
	p.view.draw(p.viewAt, l, p.focus)
	p.viewAt.x, p.viewAt.y = 1, y+1
}

// facts draws the facts in the space that the data leaves.
func (p *detailPane) facts(a area, l look, y int, now time.Time) int {
	names := 0
	for _, f := range p.detail.Facts {
		names = max(names, min(width(f[0]), 20))
	}
	most := a.h
	if len(p.detail.Data) > 0 {
		most = max(a.h*2/3, y+1)
	}
	for _, f := range p.detail.Facts {
		for i, line := range wrapped(zoned(now, f[1]), max(10, a.w-names-4)) {
			if y >= most {
				return y
			}
			if i == 0 {
				l.field(a, 1, y, names, faint, f[0])
			}
			a.put(names+3, y, plainInk, line)
			y++
		}
	}
	return y
}

func (p *detailPane) names() string {
	var names []string
	for _, d := range p.detail.Data {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}
