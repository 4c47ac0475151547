package tui

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// notice is something that is said in the last line, for a while.
type notice struct {
	text  string
	bad   bool
	until time.Time
}

func (n notice) over(now time.Time) bool { return n.text != "" && now.After(n.until) }

// say says something in the last line.
func (m *model) say(text string, bad bool) {
	m.said = notice{text, bad, m.options.Now().Add(8 * time.Second)}
}

// link is how the connection to the source stands.
type link struct {
	lost  bool
	since time.Time // what is shown is from then
	next  time.Time // when it is tried again
	tries int
}

// The pace of trying again.
const (
	firstTry = time.Second
	lastTry  = 5 * time.Second
)

// heard notes whether the source has answered. An answer that takes too long means
// that it is lost if the question was a simple one.
func (m *model) heard(a answer) tea.Cmd {
	now, err := m.options.Now(), a.failed()
	_, simple := a.(overviewRead)
	late := errors.Is(err, context.DeadlineExceeded)
	switch gone := errors.Is(err, ErrLost) || late && simple; {
	case !gone && (late || !m.link.lost):
		return nil
	case !gone:
		m.link = link{}
		m.say("connected again", false)
		m.asked = time.Time{}
		// What others may have written over the screen meanwhile goes away.
		return tea.Batch(tea.ClearScreen, m.visit())
	case !m.link.lost:
		m.link = link{lost: true, since: m.standAt}
	case now.Before(m.link.next):
		return nil
	}
	m.link.next = now.Add(min(lastTry, firstTry<<m.link.tries))
	m.link.tries = min(m.link.tries+1, 10)
	return nil
}

// text says that the connection is lost, and what is done about it.
func (l link) text(now time.Time) string {
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
