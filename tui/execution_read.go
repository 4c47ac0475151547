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
	rebuild                 bool // time has moved back: the history is read again from its start
	problem                 string
}

// The polling intervals for a running execution, and for an ended one.
const (
	executionPace = 500 * time.Millisecond
	calmPace      = 2 * time.Second
)

// refresh returns commands that read what is missing, and again what is outdated.
func (s *executionScreen) refresh(now time.Time) tea.Cmd {
	var cmds []tea.Cmd
	r := &s.reads
	pace := calmPace
	if !s.known || s.tree.x.Version > s.execution.Version || r.executionAt.IsZero() {
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
	s.reads.execution = true
	turn, had := s.reads.turn, s.tree.x.Version
	return ask(s, func(ctx context.Context) (func() tea.Cmd, error) {
		x, err := s.m.source.Execution(ctx, s.id)
		return func() tea.Cmd {
			if turn != s.reads.turn {
				return nil
			}
			return s.takeExecution(x, had, err)
		}, err
	})
}

func (s *executionScreen) readEvents() tea.Cmd {
	s.reads.events = true
	after := s.tree.x.Version
	if s.reads.rebuild {
		after = 0
	}
	turn := s.reads.turn
	return ask(s, func(ctx context.Context) (func() tea.Cmd, error) {
		events, err := s.m.source.History(ctx, s.id, after)
		return func() tea.Cmd {
			if turn != s.reads.turn {
				return nil
			}
			return s.takeEvents(events, after, err)
		}, err
	})
}

// readData reads the data to show.
func (s *executionScreen) readData() tea.Cmd {
	if s.reads.data || s.pane != dataPane || !s.data.lacks(s) {
		return nil
	}
	s.reads.data = true
	sources := s.data.sources
	return ask(s, func(ctx context.Context) (func() tea.Cmd, error) {
		found, err := readFirst(ctx, s.m.source, s.id, sources)
		return func() tea.Cmd {
			s.reads.data = false
			s.data.take(s, sources, found, err)
			if errors.Is(err, ErrLost) {
				return nil
			}
			return s.readData()
		}, err
	})
}

func (s *executionScreen) outdate(moved bool) {
	s.reads.executionAt, s.reads.eventsAt = time.Time{}, time.Time{}
	if moved {
		s.reads.turn++
		s.reads.execution, s.reads.events = false, false
	}
}

// takeExecution stores the execution, and asks for the events that the tree lacks. The tree had version
// had when the execution was asked for.
func (s *executionScreen) takeExecution(x Execution, had int64, err error) tea.Cmd {
	s.reads.execution, s.reads.problem = false, problemOf(err)
	if err != nil {
		return nil
	}
	s.execution, s.known = x, true
	s.tree.read(x.Document)
	s.document.read(x.Document)
	if x.Version < had || s.tree.x.Version < had {
		s.reads.rebuild = true
	}
	s.timers, s.childOfRun = map[string]Row{}, map[string]string{}
	for _, r := range x.Timers {
		if strings.HasPrefix(r.Kind, "timeout") || strings.HasPrefix(r.Kind, "delivery") {
			continue // only a time limit, which does not say when a run continues
		}
		if known, ok := s.timers[r.Task]; !ok || r.At.Before(known.At) {
			s.timers[r.Task] = r
		}
	}
	for _, r := range x.Children {
		if r.Task != "" {
			s.childOfRun[r.Task] = r.ID
		}
	}
	if s.behind() && !s.reads.events {
		return s.readEvents()
	}
	return nil
}

// takeEvents adds the events after a version to the tree and the history, and asks for those that follow.
func (s *executionScreen) takeEvents(events []Event, after int64, err error) tea.Cmd {
	s.reads.events, s.reads.problem = false, problemOf(err)
	if err != nil || after != s.tree.x.Version && !s.reads.rebuild {
		return nil
	}
	if s.reads.rebuild && after == 0 {
		s.reads.rebuild = false
		s.tree.reset()
		s.history.reset()
		s.data.event, s.data.sources, s.data.found = 0, nil, false
	}
	s.tree.add(events)
	s.history.add(events)
	if len(events) > 0 && s.behind() {
		return s.readEvents()
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
