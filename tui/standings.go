package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// standings are where executions stand, as far as that was looked up: of those that are
// shown, when something has happened to them.
type standings struct {
	known  map[string]stood
	flying bool
	failed time.Time
}

// stood is where an execution stood at a version.
type stood struct {
	version int64
	read    time.Time
	Standing
}

// stoodFor is after how long it is asked again where an execution stands that goes on: what
// it waits for may be gone although nothing has happened to it.
const stoodFor = 10 * time.Second

// standingsRead answers where executions stand.
type standingsRead struct {
	of     *listScreen
	rows   []Row // that were asked for
	stands []Standing
	err    error
}

func (r standingsRead) failed() error { return r.err }

// mostStood is how many are kept.
const mostStood = 2000

// lookUp asks where those executions stand that are shown and of which that is not known.
func (s *listScreen) lookUp() tea.Cmd {
	at := &s.stands
	if s.table.kind != Executions || at.flying || s.now.Sub(at.failed) < rereadFailed {
		return nil
	}
	var rows []Row
	var ids []string
	for _, r := range s.table.shown() {
		if k, ok := at.known[r.ID]; ok && k.version == r.Count && (r.State.Ended() || s.now.Sub(k.read) < stoodFor) || r.State.Ended() && r.State != Faulted {
			continue
		}
		rows, ids = append(rows, r), append(ids, r.ID)
	}
	if len(rows) == 0 {
		return nil
	}
	at.flying = true
	source := s.source
	return ask(func(ctx context.Context) tea.Msg {
		stands, err := source.Standings(ctx, ids)
		return standingsRead{s, rows, stands, err}
	})
}

func (s *standings) take(r standingsRead) {
	s.flying, s.failed = false, time.Time{}
	if r.err != nil {
		s.failed = r.of.now
		return
	}
	if s.known == nil || len(s.known) > mostStood {
		s.known = map[string]stood{}
	}
	for i, stands := range r.stands[:min(len(r.stands), len(r.rows))] {
		s.known[r.rows[i].ID] = stood{r.rows[i].Count, r.of.now, stands}
	}
}

// show puts what is known into the rows that are shown. What was so a version ago is
// better than nothing.
func (s *standings) show(t *table) {
	rows := t.shown()
	for i := range rows {
		r := &rows[i]
		r.Stands = nil
		if k, ok := s.known[r.ID]; ok && (!r.State.Ended() || k.version == r.Count) {
			r.Stands = &k.Standing
		}
	}
}

// shown are the rows in the window as it was drawn last.
func (t *table) shown() []Row {
	from := max(0, min(t.offset, len(t.rows)))
	return t.rows[from:min(from+t.height, len(t.rows))]
}
