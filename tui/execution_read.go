package tui

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// executionReads tracks what was asked, and when.
type executionReads struct {
	turn                int // answers from before a move of time are ignored
	execution, events   inquiry
	page, data          inquiry
	now                 time.Time
	executionAt, lastAt time.Time
	news                bool // events have happened that the execution does not show yet
	rebuild             bool // time has moved back
	problem             string
}

// inquiry is an open question. One that is never answered expires.
type inquiry struct{ asked time.Time }

func (q *inquiry) ask(now time.Time)       { q.asked = now }
func (q *inquiry) answered()               { q.asked = time.Time{} }
func (q *inquiry) open(now time.Time) bool { return now.Sub(q.asked) < 2*patience }

// The polling intervals for a running execution, and for an ended one.
const (
	executionPace = 500 * time.Millisecond
	calmPace      = 2 * time.Second
)

// The answers to the questions of an execution's screen.
type (
	gotExecution struct {
		of   *executionScreen
		turn int
		had  int64 // the version of the tree when it was asked
		x    Execution
		err  error
	}
	gotEvents struct {
		of     *executionScreen
		turn   int
		after  int64
		events []Event
		err    error
	}
	gotEventPage struct {
		of     *executionScreen
		turn   int // of the history's window
		after  int64
		events []Event
		err    error
	}
	gotData struct {
		of    *executionScreen
		found readPart
		err   error
	}
)

func (g gotExecution) failed() error { return g.err }
func (g gotEvents) failed() error    { return g.err }
func (g gotEventPage) failed() error { return g.err }
func (g gotData) failed() error      { return g.err }

// refresh returns the commands that read what is missing or outdated.
func (s *executionScreen) refresh(now time.Time) tea.Cmd {
	var all []tea.Cmd
	r := &s.reads
	r.now = now
	if !s.waits(now) && now.Sub(r.executionAt) >= s.pace() {
		r.execution.ask(now)
		r.executionAt, r.news = now, false
		all = append(all, s.readExecution())
	}
	if s.known && !r.events.open(now) && now.Sub(r.lastAt) >= executionPace && (s.behind() || !s.now.State.Ended()) {
		r.lastAt = now
		all = append(all, s.readEvents())
	}
	all = append(all, s.readPage(), s.readData())
	return tea.Batch(all...)
}

// waits reports whether to wait for an answer about the execution; without any data yet, it waits
// less.
func (s *executionScreen) waits(now time.Time) bool {
	return s.reads.execution.open(now) && (s.known || now.Sub(s.reads.executionAt) < calmPace/2)
}

// pace returns the polling interval of the execution.
func (s *executionScreen) pace() time.Duration {
	if !s.known || s.reads.news || s.reads.executionAt.IsZero() {
		return executionPace
	}
	return calmPace
}

// behind reports whether there are events that are not in the tree.
func (s *executionScreen) behind() bool {
	return s.reads.rebuild || s.tree.version < s.now.Version && s.reads.problem == ""
}

func (s *executionScreen) readExecution() tea.Cmd {
	src, id, turn, had := s.src, s.id, s.reads.turn, s.tree.version
	return ask(func(ctx context.Context) tea.Msg {
		x, err := src.Execution(ctx, id)
		return gotExecution{s, turn, had, x, err}
	})
}

func (s *executionScreen) readEvents() tea.Cmd {
	after := s.tree.version
	if s.reads.rebuild {
		after = 0
	}
	s.reads.events.ask(s.reads.now)
	src, id, turn := s.src, s.id, s.reads.turn
	return ask(func(ctx context.Context) tea.Msg {
		events, err := src.History(ctx, id, after)
		return gotEvents{s, turn, after, events, err}
	})
}

// readPage reads the missing part of the history's window.
func (s *executionScreen) readPage() tea.Cmd {
	after, lacks := s.history.want()
	if !lacks || s.reads.page.open(s.reads.now) || !s.seen(historyPane) {
		return nil
	}
	s.reads.page.ask(s.reads.now)
	src, id, turn := s.src, s.id, s.history.turn
	return ask(func(ctx context.Context) tea.Msg {
		events, err := src.History(ctx, id, after)
		return gotEventPage{s, turn, after, events, err}
	})
}

// readData reads the data to show.
func (s *executionScreen) readData() tea.Cmd {
	if s.reads.data.open(s.reads.now) || !s.seen(dataPane) {
		return nil
	}
	source, lacks := s.data.want(s)
	if !lacks {
		return nil
	}
	s.reads.data.ask(s.reads.now)
	src, id := s.src, s.id
	return ask(func(ctx context.Context) tea.Msg {
		text, err := src.Data(ctx, id, source.version)
		return gotData{s, readPartOf(source, text), err}
	})
}

// take handles an answer, and asks for what follows from it.
func (s *executionScreen) take(msg tea.Msg) tea.Cmd {
	switch m := msg.(type) {
	case gotExecution:
		if m.of == s {
			return s.tookExecution(m)
		}
	case gotEvents:
		if m.of == s {
			return s.tookEvents(m)
		}
	case gotEventPage:
		if m.of == s {
			return s.tookPage(m)
		}
	case gotData:
		if m.of == s {
			s.reads.data.answered()
			s.data.take(s, m)
			return s.readData()
		}
	case timeMoved:
		s.reads.turn++
		s.reads.execution, s.reads.events = inquiry{}, inquiry{}
		s.reads.executionAt, s.reads.lastAt = time.Time{}, time.Time{}
	case thingsDone:
		s.reads.executionAt, s.reads.lastAt = time.Time{}, time.Time{}
	}
	return nil
}

func (s *executionScreen) tookExecution(m gotExecution) tea.Cmd {
	if m.turn != s.reads.turn {
		return nil
	}
	s.reads.execution.answered()
	s.reads.problem = problemOf(m.err)
	if m.err != nil {
		return nil
	}
	s.show(m.x, m.had)
	if s.behind() && !s.reads.events.open(s.reads.now) {
		return s.readEvents()
	}
	return nil
}

func (s *executionScreen) tookEvents(m gotEvents) tea.Cmd {
	if m.turn != s.reads.turn {
		return nil
	}
	s.reads.events.answered()
	s.reads.problem = problemOf(m.err)
	if m.err != nil {
		return nil
	}
	if m.after != s.tree.version && !s.reads.rebuild {
		return nil
	}
	s.add(m.after, m.events)
	if n := len(m.events); n > 0 && m.events[n-1].Version > s.now.Version {
		s.reads.news = true
	}
	if len(m.events) > 0 && s.behind() {
		return s.readEvents()
	}
	s.tree.arrange()
	return tea.Batch(s.readPage(), s.readData())
}

func (s *executionScreen) tookPage(m gotEventPage) tea.Cmd {
	s.reads.page.answered()
	switch {
	case m.turn != s.history.turn:
	case m.err != nil:
		s.history.problem = problemOf(m.err)
		return nil
	default:
		s.history.take(m.after, m.events)
	}
	return s.readPage()
}

// problemOf formats an error. The model reports a lost connection.
func problemOf(err error) string {
	if err == nil || errors.Is(err, ErrLost) {
		return ""
	}
	return err.Error()
}
