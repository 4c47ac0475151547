package tui

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// View returns the screen as text.
func (m *model) View() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	return m.draw().Text(m.theme)
}

func (m *model) draw() *canvas.Canvas {
	cells := canvas.New(m.width, m.height)
	a, now := cells.All(), m.now()
	m.header(a.Part(0, 0, a.W, 1))
	m.drawBreadcrumb(a.Part(0, 1, a.W, 1))
	m.shown().draw(m.body(a), m.theme, now)
	if clock := m.overview.Clock; clock.Moves && a.H > 4 {
		m.bar.draw(a.Part(0, a.H-2, a.W, 1), m.theme, clock, now)
	}
	if a.H > 2 {
		m.footer(a.Part(0, a.H-1, a.W, 1))
	}
	if m.dialog != nil {
		m.dialog.draw(a, m.theme)
	}
	return cells
}

// body returns the part of the screen between header and footer.
func (m *model) body(a canvas.Area) canvas.Area {
	below := 1
	if m.overview.Clock.Moves && a.H > 4 {
		below = 2
	}
	return a.Part(0, 2, a.W, a.H-2-below)
}

// header draws the places and the time.
func (m *model) header(a canvas.Area) {
	x := 0
	clock := m.now().Format("15:04:05 MST")
	names := m.names(a.W - len(clock) - 1)
	if a.W >= 100 {
		x = a.Put(1, 0, canvas.Accent|canvas.Strong, "flunq") + 1
	}
	m.tabs = m.tabs[:0]
	for i, name := range names {
		from, number, text := x, canvas.Faint, canvas.Normal
		if i == m.place {
			number, text = canvas.Bar, canvas.Bar|canvas.Strong
		}
		x = a.Put(x, 0, number, " "+strconv.Itoa(i+1)+" ")
		x = a.Put(x, 0, text, name)
		x = a.Put(x, 0, text&^canvas.Strong, " ")
		m.tabs = append(m.tabs, span{from, x})
	}
	if a.W-x > len(clock) {
		a.Right(0, canvas.Faint, clock)
	}
}

// names returns the names of the places with their counts, as far as they fit. The count of dead
// letters is dropped last.
func (m *model) names(width int) []string {
	const nameWidth, apart = 7, 4 // for the program's name, and around each of them
	for _, how := range []struct {
		long, counted bool
		width         int
	}{{true, true, width - nameWidth}, {true, false, width}, {false, false, width}} {
		names := []string{"Overview"}
		if !how.long {
			names[0] = "Over"
		}
		cells := len(names[0]) + apart
		for kind := range tableCount {
			name := tables[kind].short
			if how.long {
				name = tables[kind].title
			}
			if n := tables[kind].total(m.overview.Counts); n > 0 && (how.counted || kind == DeadLetters) {
				name += " " + history.Number(n)
			}
			names = append(names, name)
			cells += len(name) + apart
		}
		if cells <= how.width || !how.long {
			return names
		}
	}
	return nil
}

// drawBreadcrumb draws the path of the screen, the description of the source, and whether the connection is lost.
func (m *model) drawBreadcrumb(a canvas.Area) {
	m.theme.Rule(a, 0, m.breadcrumb(), canvas.Accent)
	text, style := m.overview.Place, canvas.Faint
	if m.overview.Tenant != "" {
		text += m.theme.Pick(" · ", " | ") + "tenant " + m.overview.Tenant
	}
	switch waiting := m.options.Now().Sub(m.asked); {
	case m.connection.lost:
		text, style = m.connection.text(m.options.Now()), canvas.Bad|canvas.Strong
	case m.problem != "":
		text, style = m.problem, canvas.Bad|canvas.Strong
	case m.reading && waiting >= silence:
		text, style = "no response for "+age(waiting), canvas.Warn|canvas.Strong
	}
	width := a.W - canvas.Width(m.breadcrumb()) - 8
	if style == canvas.Faint && width < canvas.Width(text)+2 || text == "" {
		return
	}
	a.Right(0, style, " "+canvas.Clip(text, max(width, a.W-4), m.theme.More())+" ")
}

// silence is how long a response may take before the screen mentions it.
const silence = 2 * time.Second

func (m *model) breadcrumb() string {
	titles := []string{m.places[m.place].title()}
	for _, s := range m.opened {
		titles = append(titles, s.title())
	}
	return strings.Join(titles, m.theme.Pick(" › ", " > "))
}

// footer draws the last message, the text input, or keys.
func (m *model) footer(a canvas.Area) {
	if m.notice.text != "" {
		sign, style := m.theme.Pick("› ", "> "), canvas.Accent
		if m.notice.bad {
			sign, style = m.theme.Pick("✘ ", "! "), canvas.Bad
		}
		a.Put(a.Put(0, 0, style|canvas.Strong, sign), 0, style, canvas.Clip(m.notice.text, a.W-2, m.theme.More()))
		return
	}
	if m.dialog != nil {
		return // it shows its own keys
	}
	x := 0
	for _, h := range m.footerHints() {
		if x+footWidth(h)-2 > a.W {
			break
		}
		x = a.Put(x, 0, canvas.Accent|canvas.Strong, h.keys) + 1
		x = a.Put(x, 0, canvas.Faint, h.what) + 2
	}
}

// footerHints returns the keys for the last line: those of the screen, then time, then the rest. The
// key for help always fits.
func (m *model) footerHints() []hint {
	here := slices.DeleteFunc(m.shown().hints(), func(h hint) bool { return h.more })
	if m.typing() {
		return here
	}
	last := []hint{{keys: "?", what: "keys"}, {keys: "q", what: "quit"}}
	first := min(3, len(here))
	all := slices.Concat(here[:first], m.timeHints(), here[first:])
	width := m.width - footWidth(last...)
	for i, h := range all {
		if width -= footWidth(h); width < 0 {
			return append(all[:i], last...)
		}
	}
	return append(all, last...)
}

// footWidth returns the width of keys in the last line.
func footWidth(hints ...hint) int {
	width := 0
	for _, h := range hints {
		width += canvas.Width(h.keys) + canvas.Width(h.what) + 3
	}
	return width
}

// notice is a message in the last line, which disappears after a while.
type notice struct {
	text  string
	bad   bool
	until time.Time
}

// notify shows a message in the last line.
func (m *model) notify(text string, bad bool) { m.notice = m.noticeOf(text, bad) }

func (m *model) noticeOf(text string, bad bool) notice {
	return notice{text, bad, m.options.Now().Add(8 * time.Second)}
}

// connection is the state of the connection to the source.
type connection struct {
	lost  bool
	since time.Time // when the data shown was read
	next  time.Time // the next attempt
	tries int
}

// The pace of new attempts.
const (
	firstTry = time.Second
	lastTry  = 5 * time.Second
)

// trackConnection records whether the source has answered.
func (m *model) trackConnection(err error) tea.Cmd {
	now := m.options.Now()
	switch gone := errors.Is(err, ErrLost); {
	case !gone && (errors.Is(err, context.DeadlineExceeded) || !m.connection.lost):
		return nil
	case !gone:
		m.connection = connection{}
		m.notify("connected again", false)
		m.asked = time.Time{}
		// Redraw what others may have written over meanwhile.
		return tea.Batch(tea.ClearScreen, m.refreshShown())
	case !m.connection.lost:
		m.connection = connection{lost: true, since: m.overviewAt}
	case now.Before(m.connection.next):
		return nil
	}
	m.connection.next = now.Add(min(lastTry, firstTry<<m.connection.tries))
	m.connection.tries = min(m.connection.tries+1, 10)
	return nil
}

// text says that the connection is lost, and when the next attempt follows.
func (l connection) text(now time.Time) string {
	left := l.next.Sub(now)
	again := "trying again"
	if left > 0 {
		again += " in " + wait(left)
	}
	text := "connection lost, " + again
	if !l.since.IsZero() {
		text += "; this is from " + age(max(0, now.Sub(l.since))) + " ago"
	}
	return text
}
