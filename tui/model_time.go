package tui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// timeMoves tracks moves of time: one at a time, followed by the last one that was requested
// meanwhile.
type timeMoves struct {
	busy bool // a move is in progress
	then *Move
}

// move moves time.
func (m *model) move(to Move) tea.Cmd {
	keeper, ok := m.source.(TimeMover)
	if !ok {
		m.notify("time cannot be moved here", true)
		return nil
	}
	if m.moving.busy {
		m.moving.then = &to
		return nil
	}
	m.moving.busy = true
	return ask(nil, func(ctx context.Context) (func() tea.Cmd, error) {
		var overview Overview
		err := keeper.Move(ctx, to)
		if err == nil {
			overview, err = m.source.Overview(ctx)
		}
		return func() tea.Cmd { return m.hasMoved(overview, err) }, err
	})
}

// hasMoved stores the new time.
func (m *model) hasMoved(overview Overview, err error) tea.Cmd {
	m.moving.busy = false
	var cmds []tea.Cmd
	if err != nil {
		m.notify(err.Error(), true)
	} else {
		m.setOverview(overview, true)
		cmds = append(cmds, m.refreshShown())
	}
	if then := m.moving.then; then != nil {
		m.moving.then = nil
		cmds = append(cmds, m.move(*then))
	}
	return tea.Batch(cmds...)
}

// plays reports whether a recording is playing. A clock that can only advance runs at real speed.
func (c Clock) plays() bool { return c.Seeks && !c.Paused }

// timeKey handles the keys of the time bar, if there is one.
func (m *model) timeKey(k string) (tea.Cmd, bool) {
	clock := m.overview.Clock
	switch {
	case !clock.Moves:
		return nil, false
	case clock.Seeks:
		move, ok := m.moveOf(k)
		if !ok {
			return nil, false
		}
		return m.move(move), true
	case k == "a":
		m.dialog = m.askAdvance()
		return nil, true
	case k == "t":
		return m.move(Move{Verb: NextTimer}), true
	}
	return nil, false
}

// moveOf returns the move of a key.
func (m *model) moveOf(k string) (Move, bool) {
	switch k {
	case " ":
		if m.overview.Clock.Paused {
			return Move{Verb: Play}, true
		}
		return Move{Verb: Pause}, true
	case "+", "=":
		return Move{Verb: Pace, Speed: m.speed(1)}, true
	case "-":
		return Move{Verb: Pace, Speed: m.speed(-1)}, true
	case "[":
		return m.scrub(-1), true
	case "]":
		return m.scrub(1), true
	}
	verb, ok := map[string]MoveVerb{"n": NextEvent, "p": LastEvent, "t": NextTimer, "T": LastTimer, "N": NextTask, ">": NextBreak}[k]
	return Move{Verb: verb}, ok
}

// speed returns the next speed, up (1) or down (-1).
func (m *model) speed(step int) float64 {
	now := cmp.Or(m.overview.Clock.Speed, 1)
	all := []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 60, 600, 3600, 86400}
	at, found := slices.BinarySearch(all, now)
	if step < 0 || found {
		at += step
	}
	if at < 0 || at >= len(all) {
		return now
	}
	return all[at]
}

// scrubs is the number of steps with [ and ] through a whole recording.
const scrubs = 50

// scrub returns a step on the time bar: in time, or in events if all of them share one moment.
func (m *model) scrub(step int) Move {
	clock := m.overview.Clock
	if whole := clock.End.Sub(clock.Start); whole > 0 {
		by := max(whole/scrubs, time.Millisecond)
		return Move{Verb: Seek, To: m.now().Add(time.Duration(step) * by)} // the source keeps within its ends
	}
	by := max(clock.Of/scrubs, 1)
	return Move{Verb: Seek, To: clock.Start, Event: max(1, clock.At+step*by)}
}

// timeHints returns the keys of the time bar.
func (m *model) timeHints() []hint {
	clock := m.overview.Clock
	switch {
	case clock.Seeks:
		return []hint{
			{"space", "play/pause", false},
			{"n p", "event", false},
			{"t T", "timer", false},
			{"N >", "next task, breakpoint", false},
			{"+ -", "speed", false},
			{"[ ]", "scrub", false},
		}
	case clock.Moves:
		return []hint{{"a", "advance the clock", false}, {"t", "to the next timer", false}}
	}
	return nil
}

// askAdvance asks how far to advance time.
func (m *model) askAdvance() dialog {
	return newPrompt(question{
		title: "Advance the clock",
		about: []string{"By how much? All timers due by then fire, in order.", "A duration: 90s, 1h30m, PT1H, P1D"},
		taken: func(text string) (tea.Cmd, string) {
			by, err := duration(text)
			if err != nil {
				return nil, err.Error()
			}
			return m.move(Move{Verb: Advance, By: by}), ""
		},
	})
}

// seek goes to a time, or to a duration after the start.
func (m *model) seek(text string) (cmd tea.Cmd, problem string) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return m.move(Move{Verb: Seek, To: at}), ""
	}
	after, err := duration(text)
	if err != nil {
		return nil, "want a time such as 2026-01-02T15:04:05Z, or a duration since the beginning"
	}
	return m.move(Move{Verb: Seek, To: m.overview.Clock.Start.Add(after)}), ""
}

// timeBar is the row that shows a clock that can be moved.
type timeBar struct {
	start, end  time.Time
	from, width int // of the bar, when it was drawn
	events      int // length in events, if all of them share one moment
}

// draw draws the clock: its speed, the time, a bar with marks for the timers, and the
// remaining time.
func (t *timeBar) draw(a canvas.Area, theme canvas.Theme, c Clock, now time.Time) {
	t.start, t.end = c.Start, extent(c, now)
	t.from, t.width, t.events = 0, 0, 0
	if c.Seeks && !t.end.After(t.start) {
		t.events = c.Of
	}
	if a.H < 1 {
		return
	}
	x := t.pace(a, theme, c)
	if !c.Start.IsZero() {
		// The bar keeps its start.
		x = max(a.Put(x, 0, canvas.Strong, passed(now.Sub(c.Start))), x+7) + 1
	}
	right := a.W
	if a.W >= 60 {
		right = a.Right(0, canvas.Faint, " "+now.Format("2006-01-02 15:04:05.000Z07:00"))
	}
	whole := " " + passed(t.end.Sub(c.Start))
	if c.Of > 0 {
		of := history.Number(c.Of)
		whole = fmt.Sprintf(" %*s/%s%s", len(of), history.Number(c.At), of, whole)
	}
	if c.Seeks && right-x > canvas.Width(whole)+12 {
		right -= canvas.Width(whole)
		a.Put(right, 0, canvas.Faint, whole)
	}
	if right-x < 8 {
		return
	}
	t.from, t.width = x, right-x
	t.bar(a, theme, c, now)
}

// times formats a speed.
func times(speed float64) string {
	if speed >= 100 {
		return history.Number(int64(speed + 0.5))
	}
	return strconv.FormatFloat(speed, 'g', 4, 64)
}

// extent returns the end of the bar: the last known moment.
func extent(c Clock, now time.Time) time.Time {
	end := c.End
	if end.IsZero() {
		for _, mark := range c.Marks {
			if mark.After(end) {
				end = mark
			}
		}
	}
	if now.After(end) {
		end = now
	}
	return end
}

// pace draws whether the clock runs, and how fast.
func (*timeBar) pace(a canvas.Area, theme canvas.Theme, c Clock) int {
	sign, word, i := theme.Pick("▸", ">"), "playing", canvas.Good
	if c.Paused {
		sign, word, i = theme.Pick("‖", "="), "paused", canvas.Warn
		if c.Before != "" {
			word = "before " + canvas.Clip(c.Before, a.W/4, theme.More())
		}
	}
	x := a.Put(0, 0, i|canvas.Strong, sign+" ")
	if a.W >= 50 {
		x = a.Put(x, 0, i, word+" ")
	}
	if c.Speed != 0 && c.Speed != 1 {
		x = a.Put(x, 0, i, times(c.Speed)+theme.Pick("× ", "x "))
	}
	return x
}

func (t *timeBar) bar(a canvas.Area, theme canvas.Theme, c Clock, now time.Time) {
	head := t.cell(now)
	if t.events > 0 {
		head = c.At * (t.width - 1) / t.events
	}
	for x := range t.width {
		if x <= head {
			a.Put(t.from+x, 0, canvas.Accent, theme.Pick("━", "="))
		} else {
			a.Put(t.from+x, 0, canvas.Faint, theme.Pick("─", "-"))
		}
	}
	for _, mark := range c.Marks {
		if mark.Before(t.start) || mark.After(t.end) || t.events > 0 {
			continue
		}
		i := canvas.Warn
		if !mark.After(now) {
			i = canvas.Accent
		}
		a.Put(t.from+t.cell(mark), 0, i, theme.Pick("┃", "|"))
	}
	a.Put(t.from+head, 0, canvas.Strong, theme.Pick("●", "O"))
}

// cell returns the position of a moment on the bar.
func (t *timeBar) cell(at time.Time) int {
	whole := t.end.Sub(t.start)
	if whole <= 0 || t.width <= 1 {
		return 0
	}
	part := float64(at.Sub(t.start)) / float64(whole)
	return max(0, min(t.width-1, int(part*float64(t.width-1)+0.5)))
}

// at returns the move to a position on the row; false outside the bar.
func (t *timeBar) at(x int) (Move, bool) {
	if x < t.from || x >= t.from+t.width || t.width <= 1 {
		return Move{}, false
	}
	if t.events > 0 {
		return Move{Verb: Seek, To: t.start, Event: t.events * (x - t.from) / (t.width - 1)}, true
	}
	whole := t.end.Sub(t.start)
	to := t.start.Add(time.Duration(float64(whole) * float64(x-t.from) / float64(t.width-1)))
	return Move{Verb: Seek, To: to}, true
}

// passed formats the time since the start.
func passed(d time.Duration) string {
	switch {
	case d <= 0:
		return "+0s"
	case d < time.Minute:
		return "+" + history.Duration(d)
	}
	return "+" + age(d)
}
