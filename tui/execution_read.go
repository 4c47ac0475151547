package tui

import (
	"context"
	"errors"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// executionReads tracks which requests were made, and when.
type executionReads struct {
	turn                    int  // responses to requests before the last move of time are ignored
	execution, events, data bool // a request is open
	executionAt, eventsAt   time.Time
	changed                 bool // events have happened that the execution does not show yet
	rebuild                 bool // time has moved back: the history is read again from its start
	problem                 string
}

// The polling intervals for a running execution, and for an ended one.
const (
	executionPace = 500 * time.Millisecond
	calmPace      = 2 * time.Second
)

// The responses to the requests of an execution's screen.
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
	gotData struct {
		of    *executionScreen
		found eventData
		err   error
	}
)

func (g gotExecution) failed() error { return g.err }
func (g gotEvents) failed() error    { return g.err }
func (g gotData) failed() error      { return g.err }

// refresh returns the commands that read what is missing or outdated.
func (s *executionScreen) refresh(now time.Time) tea.Cmd {
	var cmds []tea.Cmd
	r := &s.reads
	pace := calmPace
	if !s.known || r.changed || r.executionAt.IsZero() {
		pace = executionPace
	}
	if !r.execution && now.Sub(r.executionAt) >= pace {
		r.executionAt = now
		cmds = append(cmds, s.readExecution())
	}
	if s.known && !r.events && now.Sub(r.eventsAt) >= executionPace && (s.behind() || !s.execution.State.Ended()) {
		r.eventsAt = now
		cmds = append(cmds, s.readEvents())
	}
	return tea.Batch(append(cmds, s.readData())...)
}

// behind reports whether there are events that are not in the tree.
func (s *executionScreen) behind() bool {
	return s.reads.rebuild || s.tree.x.Version < s.execution.Version && s.reads.problem == ""
}

func (s *executionScreen) readExecution() tea.Cmd {
	s.reads.execution, s.reads.changed = true, false
	source, id, turn, had := s.source, s.id, s.reads.turn, s.tree.x.Version
	return ask(func(ctx context.Context) tea.Msg {
		x, err := source.Execution(ctx, id)
		return gotExecution{s, turn, had, x, err}
	})
}

func (s *executionScreen) readEvents() tea.Cmd {
	s.reads.events = true
	after := s.tree.x.Version
	if s.reads.rebuild {
		after = 0
	}
	source, id, turn := s.source, s.id, s.reads.turn
	return ask(func(ctx context.Context) tea.Msg {
		events, err := source.History(ctx, id, after)
		return gotEvents{s, turn, after, events, err}
	})
}

// readData reads the data to show.
func (s *executionScreen) readData() tea.Cmd {
	if s.reads.data || s.pane != dataPane {
		return nil
	}
	from, lacks := s.data.want(s)
	if !lacks {
		return nil
	}
	s.reads.data = true
	source, id := s.source, s.id
	return ask(func(ctx context.Context) tea.Msg {
		text, err := source.Data(ctx, id, from.version)
		return gotData{s, eventDataOf(from, text), err}
	})
}

// take handles a response, and asks for what follows from it.
func (s *executionScreen) take(msg tea.Msg) tea.Cmd {
	switch m := msg.(type) {
	case gotExecution:
		if m.of == s && m.turn == s.reads.turn {
			return s.takeExecution(m)
		}
	case gotEvents:
		if m.of == s && m.turn == s.reads.turn {
			return s.takeEvents(m)
		}
	case gotData:
		if m.of == s {
			s.reads.data = false
			s.data.take(s, m)
			return s.readData()
		}
	case timeMoved:
		s.reads.turn++
		s.reads.execution, s.reads.events = false, false
		s.reads.executionAt, s.reads.eventsAt = time.Time{}, time.Time{}
	case readAgain:
		s.reads.executionAt, s.reads.eventsAt = time.Time{}, time.Time{}
	}
	return nil
}

// takeExecution stores the execution, and asks for the events that the tree lacks.
func (s *executionScreen) takeExecution(m gotExecution) tea.Cmd {
	s.reads.execution, s.reads.problem = false, problemOf(m.err)
	if m.err != nil {
		return nil
	}
	s.execution, s.known = m.x, true
	s.tree.read(m.x.Document)
	s.document.read(m.x.Document)
	if m.x.Version < m.had || s.tree.x.Version < m.had {
		s.reads.rebuild = true
	}
	s.timers, s.childOfRun = map[string]Row{}, map[string]string{}
	for _, r := range m.x.Timers {
		if strings.HasPrefix(r.Kind, "timeout") || strings.HasPrefix(r.Kind, "delivery") {
			continue // only a time limit, which does not say when a run continues
		}
		if known, ok := s.timers[r.Task]; !ok || r.At.Before(known.At) {
			s.timers[r.Task] = r
		}
	}
	for _, r := range m.x.Children {
		if r.Task != "" {
			s.childOfRun[r.Task] = r.ID
		}
	}
	if s.behind() && !s.reads.events {
		return s.readEvents()
	}
	return nil
}

// takeEvents adds events to the tree and the history, and asks for those that follow.
func (s *executionScreen) takeEvents(m gotEvents) tea.Cmd {
	s.reads.events, s.reads.problem = false, problemOf(m.err)
	if m.err != nil || m.after != s.tree.x.Version && !s.reads.rebuild {
		return nil
	}
	if s.reads.rebuild && m.after == 0 {
		s.reads.rebuild = false
		s.tree.reset()
		s.history.reset()
		s.data.forget()
	}
	s.tree.add(m.events)
	s.history.add(m.events)
	if n := len(m.events); n > 0 {
		s.reads.changed = s.reads.changed || m.events[n-1].Version > s.execution.Version
		if s.behind() {
			return s.readEvents()
		}
	}
	s.tree.arrange()
	return s.readData()
}

// problemOf formats an error. The model reports a lost connection.
func problemOf(err error) string {
	if err == nil || errors.Is(err, ErrLost) {
		return ""
	}
	return err.Error()
}
