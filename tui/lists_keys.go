package tui

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// key handles a key: for the filter while it is edited, for the pane while it has the focus, else
// for the table.
func (s *listScreen) key(k string) (cmd tea.Cmd, handled bool) {
	switch {
	case s.finding:
		return s.findKey(k), true
	case s.pane != nil && s.pane.focus && s.pane.key(k):
		return nil, true
	}
	if canvas.ScrollKey(k, s.table, s.table.Height) {
		return s.refresh(s.now), true
	}
	if cmd, ok := s.actionKey(k); ok {
		return cmd, true
	}
	return s.viewKey(k)
}

// findKey edits the filter, which applies immediately.
func (s *listScreen) findKey(k string) tea.Cmd {
	switch k {
	case "esc":
		s.finding = false
		s.find.Set("")
	case "enter":
		s.finding = false
	case "up", "down", "pgup", "pgdown":
		canvas.ScrollKey(k, s.table, s.table.Height)
	default:
		s.find.Key(k)
	}
	s.table.narrow(s.find.Text())
	return s.next()
}

// viewKey handles the keys that change what is shown.
func (s *listScreen) viewKey(k string) (cmd tea.Cmd, handled bool) {
	t := s.table
	switch k {
	case "/":
		s.finding = true
		s.find.Set(t.typed)
	case "x":
		t.mark()
	case "ctrl+a":
		for _, r := range t.rows {
			t.marked[r.ID] = true
		}
	case "X":
		clear(t.marked)
	case "s":
		t.orderNext(1)
	case "S":
		t.orderNext(-1)
	case "v":
		t.reverse()
	case "d":
		s.togglePane()
	case "tab", "shift+tab":
		if s.pane == nil {
			return nil, false
		}
		s.pane.focus = !s.pane.focus
	case "enter":
		return s.enter(), true
	case "esc", "backspace":
		_, leave := s.leaves()
		if leave == nil {
			return nil, false
		}
		leave()
	default:
		return nil, false
	}
	return s.refresh(s.now), true
}

// enter opens the row at the cursor.
func (s *listScreen) enter() tea.Cmd {
	row := s.table.current()
	switch {
	case row.ID == "":
		return nil
	case s.table.kind == Executions:
		return s.m.open(row.ID)
	case s.pane == nil:
		s.togglePane()
	}
	s.pane.focus = true
	return s.refresh(s.now)
}

// leaves returns what esc does here, nil if it goes back, and its hint.
func (s *listScreen) leaves() (what string, leave func()) {
	switch t := s.table; {
	case s.pane != nil:
		return "close the detail", func() { s.pane = nil }
	case t.toEnd:
		return "stay here", t.stay
	case len(t.marked) > 0:
		return "unmark", func() { clear(t.marked) }
	case t.typed != "":
		return "show all", func() {
			s.find.Set("")
			t.narrow("")
		}
	default:
		return "", nil
	}
}

func (s *listScreen) togglePane() {
	if s.pane != nil {
		s.pane = nil
		return
	}
	s.pane = &detailPane{source: s.m.source, table: s.table.kind}
}

// actionKey handles the keys that act on, copy or open something.
func (s *listScreen) actionKey(k string) (cmd tea.Cmd, handled bool) {
	row := s.table.current()
	switch k {
	case "y":
		if s.pane != nil && s.pane.focus {
			return s.m.copy(s.pane.copied()), true
		}
		return s.m.copy("id of the "+tables[s.table.kind].one, row.ID), true
	case "Y":
		return s.m.copy("id of the execution", executionOf(s.table.kind, row)), true
	case "o":
		return s.m.open(executionOf(s.table.kind, row)), true
	}
	return s.m.actionKey(k, s.table.kind, s.table.chosen()...)
}

// actionKey handles the keys of actions on the given rows.
func (m *model) actionKey(key string, kind Table, ids ...string) (cmd tea.Cmd, handled bool) {
	for _, d := range tables[kind].actions {
		if d.key == key {
			return m.act(Action{Verb: d.verb, Table: kind, IDs: ids}), true
		}
	}
	return nil, false
}

// executionOf returns the execution that a row represents or belongs to.
func executionOf(kind Table, row Row) string {
	if kind == Executions {
		return row.ID
	}
	return row.Execution
}

// keyBinding binds a key to an action.
type keyBinding struct {
	key  string
	verb Verb
	what string
}

// offered returns the actions that suit a row and that the source supports.
func offered(s Source, kind Table, row Row) []keyBinding {
	return slices.DeleteFunc(slices.Clone(tables[kind].actions), func(d keyBinding) bool {
		return !can(s, d.verb) || kind == Executions && !suits(d.verb, row.State)
	})
}

// offered returns the actions for the row at the cursor, or for the marked rows in any state.
func (s *listScreen) offered() []keyBinding {
	if len(s.table.marked) == 0 {
		row := s.table.current()
		if row.ID == "" {
			return nil
		}
		return offered(s.m.source, s.table.kind, row)
	}
	return slices.DeleteFunc(slices.Clone(tables[s.table.kind].actions), func(d keyBinding) bool { return !can(s.m.source, d.verb) })
}

// suits reports whether an action makes sense for an execution in a state.
func suits(v Verb, s State) bool {
	switch v {
	case Cancel:
		return !s.Ended()
	case Suspend:
		return !s.Ended() && s != Suspended
	case Resume:
		return s == Suspended
	case Retry:
		return s == Faulted
	default:
		return true
	}
}

// hints returns the keys of the table that do something at present.
func (s *listScreen) hints() []hint {
	if s.finding {
		return []hint{
			{"enter", "keeps the filter", false},
			{"esc", "shows all", false},
			{s.table.kind.filterExample(), "searches one column", false},
		}
	}
	row := s.table.current()
	if s.pane != nil && s.pane.focus {
		return s.pane.hints(s.table.kind != Executions && row.Execution != "")
	}
	var hints []hint
	if row.ID != "" {
		hints = append(hints, hint{"enter", "open", false})
	}
	if row.ID != "" || s.table.typed != "" {
		hints = append(hints, hint{"/", "filter", false})
	}
	switch {
	case s.pane != nil:
		hints = append(hints, hint{"d", "close the detail", false}, hint{"tab", "to the detail", false})
	case row.ID != "":
		hints = append(hints, hint{"d", "detail", false})
	}
	for _, d := range s.offered() {
		hints = append(hints, hint{d.key, d.what, d.verb == Record})
	}
	if text, _ := s.leaves(); text != "" {
		hints = append(hints, hint{"esc", text, s.pane != nil})
	}
	if row.ID == "" {
		return hints
	}
	hints = append(hints, hint{"x", "mark", false}, hint{"s", "sort", false})
	if executionOf(s.table.kind, row) != "" && s.table.kind != Executions {
		hints = append(hints, hint{"o", "open its execution", true})
	}
	return append(hints, []hint{
		{"S", "sort by the previous column", true},
		{"v", "reverse the sort order", true},
		{"ctrl+a", "mark all loaded rows", true},
		{"X", "mark none", true},
		{"↑ ↓ j k", "a row", true},
		{"pgup pgdn", "a page", true},
		{"g G", "beginning, end", true},
	}...)
}

// filterBy filters the current table.
func (m *model) filterBy(text string) (cmd tea.Cmd, problem string) {
	s, ok := m.shown().(*listScreen)
	if !ok {
		return nil, "no table is shown here"
	}
	s.find.Set(text)
	s.table.narrow(text)
	return s.next(), ""
}
