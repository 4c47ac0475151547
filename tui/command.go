package tui

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

// command is a command that can be typed after a colon.
type command struct {
	name, short, args, what string
	run                     func(m *model, args string) (cmd tea.Cmd, problem string)
}

// commands returns all commands.
func commands() []command {
	all := []command{place("overview", "o", 0)}
	for i, t := range tables {
		all = append(all, place(t.command, t.alias, 1+i))
	}
	all = append(all, []command{
		{"open", "", "ID", "opens an execution", (*model).openTyped},
		{"filter", "f", "TEXT", "filters the current table", (*model).filterBy},
		{"emit", "", "[JSON]", "emits an event", func(m *model, text string) (tea.Cmd, string) { return m.act(Action{Verb: Emit, Text: text}), "" }},
		actionCommand(Fire, Timers, "ID…", "fires timers now"),
		actionCommand(Cancel, Executions, "ID…", "cancels executions"),
		actionCommand(Suspend, Executions, "ID…", "suspends executions"),
		actionCommand(Resume, Executions, "ID…", "resumes executions"),
		actionCommand(Retry, Executions, "ID…", "retries executions that faulted"),
		actionCommand(Record, Executions, "ID", "writes a recording"),
		actionCommand(Replay, DeadLetters, "ID…", "replays dead letters"),
		actionCommand(Drop, DeadLetters, "ID…", "drops dead letters"),
		{"reschedule", "", "ID WHEN", "moves a timer", reschedule},
		{"time", "", "utc|local", "shows times in UTC, or in the zone of this machine", (*model).setZone},
		{"theme", "", "dark|light|none", "fits the colours to the background", (*model).paint},
		{"help", "h", "", "shows the keys of this screen", func(m *model, _ string) (tea.Cmd, string) { m.dialog = m.help(); return nil, "" }},
		{"quit", "q", "", "ends", func(*model, string) (tea.Cmd, string) { return tea.Quit, "" }},
	}...)
	return append(all, timeCommands()...)
}

// commands returns the commands that are available here.
func (m *model) commands() []command {
	clock := m.overview.Clock
	verbs := []Verb{Fire, Cancel, Reschedule, Suspend, Resume, Retry, Replay, Drop, Emit, Record}
	return slices.DeleteFunc(commands(), func(c command) bool {
		verb := Verb(c.name)
		ofTime := slices.ContainsFunc(timeCommands(), func(t command) bool { return t.name == c.name })
		return slices.Contains(verbs, verb) && !can(m.source, verb) || ofTime && !clock.Moves || c.name == "speed" && !clock.Seeks
	})
}

// timeCommands returns the commands that move time.
func timeCommands() []command {
	simple := func(name string, verb MoveVerb, what string) command {
		return command{name, "", "", what, func(m *model, _ string) (tea.Cmd, string) { return m.move(Move{Verb: verb}), "" }}
	}
	return []command{
		{"advance", "", "DURATION", "advances the clock", func(m *model, text string) (tea.Cmd, string) {
			by, err := duration(text)
			if err != nil {
				return nil, err.Error()
			}
			return m.move(Move{Verb: Advance, By: by}), ""
		}},
		simple("play", Play, "starts the clock"),
		simple("pause", Pause, "stops time"),
		{"speed", "", "TIMES", "sets the speed of the clock", func(m *model, text string) (tea.Cmd, string) {
			speed, err := strconv.ParseFloat(strings.TrimRight(text, "x×"), 64)
			if err != nil || speed <= 0 || speed > 1e9 {
				return nil, "want a speed such as 0.5 or 60"
			}
			return m.move(Move{Verb: Pace, Speed: speed}), ""
		}},
		{"seek", "", "TIME", "goes to a time, or a duration since the beginning", (*model).seek},
	}
}

// place returns a command that goes to a place.
func place(name, short string, at int) command {
	return command{name, short, "", "goes there", func(m *model, _ string) (tea.Cmd, string) { return m.openPlace(at), "" }}
}

// actionCommand returns the command for an action.
func actionCommand(verb Verb, table Table, args, what string) command {
	return command{string(verb), "", args, what, func(m *model, text string) (tea.Cmd, string) {
		ids := strings.Fields(text)
		if len(ids) == 0 {
			return nil, "want ids of " + strings.ToLower(tables[table].title)
		}
		return m.act(Action{Verb: verb, Table: table, IDs: ids}), ""
	}}
}

func reschedule(m *model, text string) (tea.Cmd, string) {
	id, when, ok := strings.Cut(text, " ")
	if !ok {
		return nil, "want the id of a timer and a time"
	}
	return m.act(Action{Verb: Reschedule, Table: Timers, IDs: []string{id}, Text: strings.TrimSpace(when)}), ""
}

// setZone selects the time zone of the display.
func (m *model) setZone(name string) (cmd tea.Cmd, problem string) {
	switch name {
	case "utc":
		m.zone = time.UTC
	case "local":
		m.zone = m.options.Zone
	default:
		return nil, "want utc or local"
	}
	m.notify("times are shown in "+m.now().Format("MST (-07:00)"), false)
	return nil, ""
}

// toggleZone toggles between UTC and the zone of this machine.
func (m *model) toggleZone() tea.Cmd {
	to := "utc"
	if m.zone == time.UTC {
		to = "local"
	}
	cmd, _ := m.setZone(to)
	return cmd
}

// paint selects other colours.
func (m *model) paint(name string) (cmd tea.Cmd, problem string) {
	background, ok := map[string]Background{"dark": Dark, "light": Light, "none": None}[name]
	if !ok {
		return nil, "want dark, light or none"
	}
	m.theme.Palette = paletteOf(background)
	return tea.ClearScreen, ""
}

// run runs a typed line.
func (m *model) run(line string) tea.Cmd {
	name, args, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), ":")), " ")
	if name == "" {
		return nil
	}
	m.history = append(slices.DeleteFunc(m.history, func(old string) bool { return old == line }), line)
	// The others explain why they are not available.
	found := matching(append(m.commands(), commands()...), name)
	if len(found) == 0 {
		m.notify("no command is named "+name+" (: lists them)", true)
		return nil
	}
	cmd, problem := found[0].run(m, strings.TrimSpace(args))
	if problem != "" {
		m.notify(name+": "+problem, true)
	}
	return cmd
}

// matching returns the commands with a prefix, exact matches first.
func matching(all []command, name string) []command {
	found := slices.DeleteFunc(slices.Clone(all), func(c command) bool {
		return !strings.HasPrefix(c.name, name) && c.short != name
	})
	rank := func(c command) int {
		switch name {
		case c.name:
			return 0
		case c.short:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(found, func(a, b command) int { return cmp.Compare(rank(a), rank(b)) })
	return found
}

// commandLine is the input of a command.
type commandLine struct {
	m     *model
	field canvas.Input
	all   []command
	back  int // position in the history
}

func (*commandLine) typing() bool { return true }
func (*commandLine) wheel(int)    {}

func (c *commandLine) key(k string) (cmd tea.Cmd, open bool) {
	switch k {
	case "esc":
		return nil, false
	case "backspace":
		if c.field.Text() == "" {
			return nil, false
		}
	case "enter":
		return c.m.run(c.field.Text()), false
	case "tab":
		c.complete()
		return nil, true
	case "up":
		c.recall(1)
		return nil, true
	case "down":
		c.recall(-1)
		return nil, true
	}
	c.field.Key(k)
	return nil, true
}

// recall shows an earlier command.
func (c *commandLine) recall(step int) {
	before := c.m.history
	c.back = max(0, min(len(before), c.back+step))
	if c.back == 0 {
		c.field.Set("")
		return
	}
	c.field.Set(before[len(before)-c.back])
}

// complete completes the name of a command.
func (c *commandLine) complete() {
	if found := c.found(); len(found) > 0 && !strings.Contains(c.field.Text(), " ") {
		c.field.Set(found[0].name + " ")
	}
}

func (c *commandLine) found() []command {
	name, _, _ := strings.Cut(c.field.Text(), " ")
	return matching(c.all, name)
}

// draw draws the line at the bottom, with completions above it.
func (c *commandLine) draw(a canvas.Area, theme canvas.Theme) {
	found := c.found()
	rows := max(0, min(len(found), a.H-4, 24))
	list := a.Part(0, a.H-2-rows, a.W, rows+1)
	list.Clear()
	theme.Rule(list, 0, "commands", canvas.Accent)
	for y := range rows {
		style := canvas.Normal
		if y == 0 && c.field.Text() != "" {
			style = canvas.Strong
		}
		x := list.Put(1, y+1, canvas.Accent|style, found[y].name)
		list.Put(x+1, y+1, canvas.Normal, found[y].args)
		list.Put(24, y+1, canvas.Faint, canvas.Clip(found[y].what, list.W-24, theme.More()))
	}
	line := a.Part(0, a.H-1, a.W, 1)
	line.Clear()
	line.Put(0, 0, canvas.Accent|canvas.Strong, ":")
	c.field.Draw(line, 1, 0)
}
