package tui

import (
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// draw draws the titles, the rows, and a status line.
func (t *table) draw(a canvas.Area, theme canvas.Theme, now time.Time, total int64) {
	t.Height, t.width = max(1, a.H-2), a.W
	t.Fit(len(t.rows))
	widths := t.layout(a.W, now)
	t.titles(a, theme, widths)
	t.Rows(a.Part(0, 1, a.W, a.H-2), len(t.rows), canvas.Selected, func(row canvas.Area, at int) {
		t.row(row, theme, t.rows[at], widths, now)
	})
	if len(t.rows) == 0 {
		a.Put(2, 2, canvas.Faint, canvas.Clip(t.emptiness(), a.W-2, theme.More()))
		if t.filter.Problem != "" {
			for i, line := range canvas.Wrapped(t.filter.Problem, a.W-4) {
				a.Put(2, 3+i, canvas.Warn, line)
			}
		}
	}
	t.foot(a, theme, total)
}

// gutter is the width of the marks and signs before the columns.
func (t *table) gutter() int {
	if tables[t.kind].stated {
		return 4
	}
	return 2
}

// layout returns the widths of the columns: each is as wide as its widest cell so far, and the columns
// that may grow share the remaining space. A column without space has the width 0.
func (t *table) layout(width int, now time.Time) (widths []int) {
	columns := tables[t.kind].columns
	if len(t.widths) != len(columns) {
		t.widths = make([]int, len(columns))
	}
	left := width - t.gutter() + 2
	for i, c := range columns {
		t.widths[i] = max(t.widths[i], len(c.title)+1)
		for at := t.Offset; at < min(t.Offset+t.Height, len(t.rows)); at++ {
			t.widths[i] = max(t.widths[i], min(c.limit, canvas.Width(c.cell(t.rows[at], now))))
		}
		w := t.widths[i]
		if width < c.needs {
			w = 0
		}
		widths = append(widths, w)
		if w > 0 {
			left -= w + 2
		}
	}
	shrink(columns, widths, left)
	return widths
}

// narrowest is the width to which a growing column shrinks at most.
const narrowest = 10

// shrink narrows the widest of the growing columns until all columns fit. If they cannot, it leaves out
// the last ones, since part of a number would be a wrong number.
func shrink(columns []column, widths []int, left int) {
	last := len(columns) - 1
	for left < 0 && last > 0 {
		widest := -1
		for i, c := range columns {
			if c.grows && widths[i] > narrowest && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		switch {
		case widest >= 0:
			widths[widest]--
			left++
		case widths[last] > 0:
			left += widths[last] + 2
			widths[last] = 0
		default:
			last--
		}
	}
}

func (t *table) titles(a canvas.Area, theme canvas.Theme, widths []int) {
	x := t.gutter()
	number, down := t.sorted()
	for i, c := range tables[t.kind].columns {
		if widths[i] == 0 {
			continue
		}
		title := c.title
		if number == i+1 {
			title += theme.Pick([2]string{"▲", "▼"}[truth(down)], [2]string{"^", "v"}[truth(down)])
		}
		at := x
		if c.right {
			at = x + max(0, widths[i]-canvas.Width(title))
		}
		theme.Field(a, at, 0, widths[i], canvas.Accent|canvas.Strong, title)
		x += widths[i] + 2
	}
}

func truth(on bool) int {
	if on {
		return 1
	}
	return 0
}

func (t *table) row(a canvas.Area, theme canvas.Theme, r Row, widths []int, now time.Time) {
	s := signOf(theme, r.State)
	if t.marked[r.ID] {
		a.Put(0, 0, canvas.Warn|canvas.Strong, theme.Pick("◆", "#"))
	}
	if tables[t.kind].stated {
		a.Put(2, 0, s.style, s.glyph)
	}
	x := t.gutter()
	for i, c := range tables[t.kind].columns {
		w := widths[i]
		if w == 0 {
			continue
		}
		text, from := canvas.Clip(c.cell(r, now), w, theme.More()), x
		if c.right {
			from = x + w - canvas.Width(text)
		}
		a.Put(from, 0, c.styleOf(r, s), text)
		x += w + 2
	}
}

// emptiness returns the text of a table without rows: why there are none.
func (t *table) emptiness() string {
	switch {
	case t.problem != "":
		return t.problem
	case !t.loaded:
		return "reading " + strings.ToLower(tables[t.kind].title)
	case t.next != "" || t.first != "":
		return "looking: " + history.Number(t.scanned) + " so far"
	case t.typed != "" && t.scanned == 0:
		return "nothing matches " + t.typed + " (esc: all)"
	case t.typed != "":
		return "none of " + history.Number(t.scanned) + " matches " + t.typed + " (esc: all)"
	default:
		return "no " + strings.ToLower(tables[t.kind].title)
	}
}

// foot draws the status line: the position, marks, filter and order.
func (t *table) foot(a canvas.Area, theme canvas.Theme, total int64) {
	y := a.H - 1
	var parts []string
	if t.loaded {
		parts = append(parts, t.position(total))
	}
	if n := len(t.marked); n > 0 {
		parts = append(parts, history.Number(n)+" marked")
	}
	if t.typed != "" {
		parts = append(parts, "filter "+t.typed+": "+history.Number(t.scanned)+" looked at"+t.going())
	}
	if t.sort != 0 {
		parts = append(parts, "sorted by "+strings.ToLower(tables[t.kind].columns[t.sort-1].title)+t.among(total))
	}
	if t.toEnd {
		parts = append(parts, "going to the end")
	}
	if pauseFactor*t.cost > seldom {
		parts = append(parts, "r reads again")
	}
	text := strings.Join(parts, theme.Pick(" · ", " | "))
	x := a.Put(1, y, canvas.Faint, canvas.Clip(text, a.W-2, theme.More())) + 2
	if t.filter.Problem != "" && len(t.rows) > 0 {
		a.Put(x, y, canvas.Warn, canvas.Clip(t.filter.Problem, a.W-x-1, theme.More()))
	}
	if t.problem != "" && len(t.rows) > 0 {
		a.Right(y, canvas.Bad, canvas.Clip(" "+t.problem, a.W/2, theme.More()))
	}
}

// seldom is the interval above which the status line offers the key that reads again.
const seldom = 10 * time.Second

// position describes the position of the cursor in the list.
func (t *table) position(total int64) string {
	if len(t.rows) == 0 {
		return "0 rows"
	}
	at := int64(t.past + t.Cursor + 1)
	of := int64(t.past + len(t.rows))
	left := int64(t.after + len(t.rows) - 1 - t.Cursor)
	switch {
	case t.ended && t.typed == "" && total > left:
		return history.Number(total-left) + " of " + history.Number(total)
	case t.ended && left == 0:
		return "the last one"
	case t.ended:
		return history.Count(left, "row") + " before the end"
	case t.typed == "" && total > 0:
		of = max(total, of)
		return history.Number(at) + " of " + history.Number(of)
	case t.next != "":
		return history.Number(at) + " of " + history.Number(of) + " or more"
	default:
		return history.Number(at) + " of " + history.Number(of)
	}
}

func (t *table) going() string {
	if t.reading != nil && (t.next != "" || t.first != "") {
		return ", going on"
	}
	return ""
}

// among says how many rows were sorted, if not all of them.
func (t *table) among(total int64) string {
	if t.next == "" && int64(len(t.rows)) >= total || t.typed != "" && t.next == "" {
		return ""
	}
	return " among the first " + history.Number(len(t.rows))
}
