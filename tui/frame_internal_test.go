package tui

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// endless is a source with a million rows in each table.
type endless struct{ *scripted }

func (endless) Page(_ context.Context, q Query) (Page, error) {
	from, _ := strconv.Atoi(q.After)
	if q.Back {
		from = 1_000_000 - q.Limit
	}
	p := Page{Scanned: q.Limit}
	for at := from; at < min(from+q.Limit, 1_000_000); at++ {
		p.Rows = append(p.Rows, Row{
			ID: fmt.Sprintf("order-%07d", at), Cursor: strconv.Itoa(at + 1), State: Waiting, Kind: "wait", Workflow: "shop.order",
			Execution: fmt.Sprintf("order-%07d", at/3), Task: "/do/1/each/do/0/pause", At: when.Add(time.Duration(at) * time.Second),
		})
	}
	if from+q.Limit < 1_000_000 {
		p.Next = strconv.Itoa(from + q.Limit)
	}
	return p, nil
}

// A key and the frame after it take far less than the sixteen milliseconds of a display frame.
func BenchmarkFrame(b *testing.B) {
	for name, keys := range map[string][]string{
		"overview": {"1"}, "timers": {"3", "G"}, "sorted": {"2", "s", "s"}, "execution": {"2", "enter"},
	} {
		b.Run(name, func(b *testing.B) {
			m := newModel(endless{newScripted()}, Options{Now: func() time.Time { return when }})
			m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
			settleAll(m, m.Init(), 0)
			for _, k := range keys {
				settleAll(m, m.key(k), 0)
			}
			down := tea.KeyMsg{Type: tea.KeyDown}
			for b.Loop() {
				m.Update(down)
				if len(m.View()) == 0 {
					b.Fatal("nothing is shown")
				}
			}
		})
	}
}

// An arriving page is also added, sorted and drawn within a frame.
func BenchmarkPage(b *testing.B) {
	for name, keys := range map[string][]string{"plain": {"3"}, "sorted": {"3", "s", "s"}} {
		b.Run(name, func(b *testing.B) {
			source := endless{newScripted()}
			m := newModel(source, Options{Now: func() time.Time { return when }})
			m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
			settleAll(m, m.Init(), 0)
			for _, k := range keys {
				settleAll(m, m.key(k), 0)
			}
			s := m.places[1+int(Timers)].(*listScreen)
			t := s.table
			for b.Loop() {
				r := t.refresh()
				page, err := source.Page(b.Context(), r.query)
				m.Update(response{err: err, take: func() tea.Cmd { return s.takePage(r, page, err) }})
				if len(m.View()) == 0 || len(t.rows) != r.query.Limit {
					b.Fatalf("%d rows", len(t.rows))
				}
			}
		})
	}
}

// settleAll runs commands, except ticks.
func settleAll(m *model, cmd tea.Cmd, depth int) {
	if cmd == nil || depth > 40 {
		return
	}
	answer := make(chan tea.Msg, 1)
	go func() { answer <- cmd() }()
	select {
	case msg := <-answer:
		if batch, ok := msg.(tea.BatchMsg); ok {
			for _, c := range batch {
				settleAll(m, c, depth+1)
			}
			return
		}
		_, next := m.Update(msg)
		settleAll(m, next, depth+1)
	case <-time.After(20 * time.Millisecond):
	}
}
