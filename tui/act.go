package tui

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// actionTimeout is how long an action may take.
const actionTimeout = 2 * time.Minute

// act asks for the input that an action needs, and then for confirmation.
func (m *model) act(a Action) tea.Cmd {
	if len(a.IDs) == 0 && a.Verb != Emit || slices.Contains(a.IDs, "") {
		m.notify("nothing is selected", true)
		return nil
	}
	if a.Text == "" {
		if q, ok := m.missing(a); ok {
			m.dialog = newPrompt(q)
			return nil
		}
	}
	c := &confirmation{m: m, action: a}
	m.dialog = c
	return c.plan()
}

// planned shows the plan of an action. After invalid input it asks for the action's input again.
func (m *model) planned(c *confirmation, plan Plan, err error) {
	c.made, c.planned = true, plan
	if err == nil {
		return
	}
	c.problem = err.Error()
	if m.dialog != dialog(c) || errors.Is(err, ErrLost) {
		return
	}
	if !can(m.source, c.action.Verb) {
		m.dialog = nil
		m.notify(err.Error(), true)
	} else if p, ok := m.askAgain(c); ok {
		m.dialog = p
	}
}

// missing returns the question that must be answered before an action can be planned.
func (m *model) missing(a Action) (question, bool) {
	q := question{title: sentence(a)}
	q.taken = func(text string) (tea.Cmd, string) {
		if a.Text = strings.TrimSpace(text); a.Text == "" {
			return nil, "this must not be empty"
		}
		return m.act(a), ""
	}
	switch a.Verb {
	case Reschedule:
		q.about = []string{"When should it fire? From now (10m, PT1H) or at a time (2026-01-02T15:04:05Z)."}
	case Emit:
		q.about = []string{`A CloudEvent as JSON: at least its type. {"type": "com.shop.paid", "data": {"order": 7}}`}
		q.text, q.ahead = `{"type": "", "data": {}}`, len(`", "data": {}}`)
	case Record:
		q.about = []string{"Write to which file? 'flunq replay FILE --tui' plays it, back and forth."}
		q.text = fileFor(a)
	default:
		return question{}, false
	}
	return q, true
}

// fileFor suggests a file name for the recording of an execution.
func fileFor(a Action) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, a.IDs[0])
	return strings.TrimLeft(name, ".-") + ".jsonl"
}

// sentence describes an action in a few words.
func sentence(a Action) string {
	if a.Verb == Emit {
		return "Emit an event"
	}
	verb := string(a.Verb)
	verb = strings.ToUpper(verb[:1]) + verb[1:]
	if len(a.IDs) == 1 {
		return verb + " " + tables[a.Table].one + " " + a.IDs[0]
	}
	return verb + " " + history.Count(len(a.IDs), tables[a.Table].one)
}

// perform carries out an action.
func (m *model) perform(a Action) tea.Cmd {
	m.notify("doing it: "+sentence(a), false)
	return askWithin(actionTimeout, nil, func(ctx context.Context) (func() tea.Cmd, error) {
		said, err := m.source.Do(ctx, a)
		return func() tea.Cmd { return m.done(a, said, err) }, err
	})
}

// done reports the result of an action, and reads everything again.
func (m *model) done(a Action, said string, err error) tea.Cmd {
	if err != nil {
		m.showText(strings.ToLower(sentence(a)), err.Error(), true)
	} else {
		m.showText(sentence(a), said, false)
		clear(m.lists[a.Table].table.marked)
	}
	return m.readAgain()
}

// readAgain reads everything again.
func (m *model) readAgain() tea.Cmd {
	m.asked = time.Time{}
	m.outdate(false)
	return m.refreshShown()
}

// showText shows a short text in the last line, and a long one in a dialog.
func (m *model) showText(title, text string, problem bool) {
	if m.dialog == nil && (strings.Contains(strings.TrimSpace(text), "\n") || canvas.Width(text) > m.width-4) {
		m.dialog = &message{title: title, text: text, bad: problem}
		return
	}
	m.notify(text, problem)
}

// maxCopied is the maximum number of bytes, before base64, that terminals accept for the clipboard.
const maxCopied = 74_994

// copy copies a text to the clipboard of the terminal (OSC 52), and reports that; what says what it is.
func (m *model) copy(what, text string) tea.Cmd {
	switch {
	case text == "":
		m.notify("there is no "+what+" to copy here", true)
		return nil
	case len(text) > maxCopied:
		m.notify(fmt.Sprintf("the %s is too long for the clipboard of a terminal: %s bytes, at most %s", what, history.Number(len(text)), history.Number(maxCopied)), true)
		return nil
	}
	said := "copied the " + what + ": " + strings.Join(strings.Fields(text), " ")
	if canvas.Width(said) > m.width-4 {
		said = "copied the " + what + ", " + history.Count(utf8.RuneCountInString(text), "character")
	}
	m.notify(said, false)
	return func() tea.Msg {
		if _, err := io.WriteString(m.options.Output, "\x1b]52;c;"+base64.StdEncoding.EncodeToString([]byte(text))+"\x07"); err != nil {
			return m.noticeOf("copy: "+err.Error(), true)
		}
		return nil
	}
}
