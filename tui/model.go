package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/background"
	"flunq.io/flunq/tui/canvas"
)

// model is the whole terminal UI: the places, executions opened from there, and a dialog over
// them.
type model struct {
	source  Source
	options Options

	overview   Overview
	overviewAt time.Time      // when the overview was read, by the machine's clock
	reading    bool           // it is being read
	problem    string         // why it cannot be read
	asked      time.Time      // when it was requested
	zone       *time.Location // in which times are shown

	asksBackground bool // ask the terminal for its background
	theme          canvas.Theme
	width, height  int

	home   *overviewScreen
	lists  [tableCount]*listScreen
	places []screen // all of them
	place  int
	opened []screen
	dialog dialog

	connection connection
	notice     notice
	moving     timeMoves
	bar        timeBar
	history    []string // typed commands, the newest last

	tabs      []span // of the places, as they were drawn
	lastClick click
}

// span is the extent of something in a row.
type span struct{ from, to int }

// tickMsg is sent several times a second.
type tickMsg time.Time

// The intervals of checking for work.
const (
	restingTick = 250 * time.Millisecond
	playingTick = 100 * time.Millisecond
)

func newModel(source Source, options Options) *model {
	d := Defaults()
	if options.Now == nil {
		options.Now = d.Now
	}
	if options.Every <= 0 {
		options.Every = d.Every
	}
	if options.Zone == nil {
		options.Zone = time.Local
	}
	m := &model{source: source, options: options, zone: options.Zone, theme: canvas.Theme{Palette: paletteOf(options.Background), ASCII: options.ASCII}}
	if options.UTC {
		m.zone = time.UTC
	}
	m.home = newOverviewScreen(m)
	m.places = append(m.places, m.home)
	for kind := range tableCount {
		m.lists[kind] = &listScreen{m: m, table: newTable(kind)}
		m.places = append(m.places, m.lists[kind])
	}
	if options.Open != "" {
		m.opened = []screen{newExecutionScreen(m, options.Open)} // the first tick reads it
	}
	return m
}

// Init starts reading and ticking.
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.readOverview(), m.nextTick(), m.setTitle()}
	if m.asksBackground {
		out := m.options.Output
		cmds = append(cmds, func() tea.Msg { _, _ = io.WriteString(out, background.Ask); return nil })
	}
	return tea.Batch(cmds...)
}

// Update handles all messages. It never blocks: commands do.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	return m, m.update(msg)
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return nil
	case tickMsg:
		return tea.Batch(m.tick(time.Time(msg)), m.nextTick())
	case tea.KeyMsg:
		return m.press(msg)
	case tea.MouseMsg:
		return m.mouse(tea.MouseEvent(msg))
	case gotBackground:
		if msg.light {
			m.theme.Palette = paletteOf(Light)
		}
		return tea.ClearScreen
	case tea.ResumeMsg: // the shell has changed the mouse mode and the screen meanwhile
		cmds := []tea.Cmd{tea.ClearScreen, m.refreshShown(), m.setTitle()}
		if m.options.Mouse {
			cmds = append(cmds, tea.EnableMouseCellMotion)
		}
		return tea.Batch(cmds...)
	case notice:
		m.notice = msg
	case response:
		cmd := m.trackConnection(msg.err)
		if msg.of != nil && !slices.Contains(m.places, msg.of) && !slices.Contains(m.opened, msg.of) {
			return cmd // the screen was closed
		}
		return tea.Batch(cmd, msg.take())
	}
	return nil
}

// setTitle sets the title of the terminal's window.
func (m *model) setTitle() tea.Cmd {
	if m.options.Title == "" {
		return nil
	}
	return tea.SetWindowTitle(canvas.Cleaned(m.options.Title))
}

// outdate says to all screens that what they have read may be outdated, or wrong if time was moved.
func (m *model) outdate(moved bool) {
	for _, s := range slices.Concat(m.places, m.opened) {
		s.outdate(moved)
	}
}

// nextTick waits for the next tick.
func (m *model) nextTick() tea.Cmd {
	pace := restingTick
	if m.overview.Clock.plays() {
		pace = playingTick
	}
	return tea.Tick(pace, func(at time.Time) tea.Msg { return tickMsg(at) })
}

// tick reads again what is outdated, and removes the notice when its time is over.
func (m *model) tick(now time.Time) tea.Cmd {
	if now.After(m.notice.until) {
		m.notice = notice{}
	}
	if m.connection.lost {
		if m.reading || now.Before(m.connection.next) {
			return nil
		}
		return m.readOverview()
	}
	var cmds []tea.Cmd
	if !m.reading && now.Sub(m.asked) >= m.pace() {
		cmds = append(cmds, m.readOverview())
	}
	return tea.Batch(append(cmds, m.shown().refresh(now))...)
}

// pace returns the polling interval of the overview.
func (m *model) pace() time.Duration {
	if m.overview.Clock.plays() {
		return min(m.options.Every, 2*playingTick)
	}
	return m.options.Every
}

// readOverview reads the overview.
func (m *model) readOverview() tea.Cmd {
	m.reading, m.asked = true, m.options.Now()
	return ask(nil, func(ctx context.Context) (func() tea.Cmd, error) {
		overview, err := m.source.Overview(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", ErrLost, err) // so simple a request would have been answered
		}
		return func() tea.Cmd {
			m.reading, m.problem = false, problemOf(err)
			if err == nil {
				m.setOverview(overview, false)
			}
			return nil
		}, err
	})
}

// setOverview stores the overview. Time may have been moved by others, too.
func (m *model) setOverview(overview Overview, moved bool) {
	before, now := m.overview.Clock, overview.Clock
	m.overview, m.overviewAt = overview, m.options.Now()
	m.home.update()
	if moved || now.Moves && (before.Moves != now.Moves || before.Paused != now.Paused || before.Speed != now.Speed) {
		m.outdate(true)
	}
}

// now returns the source's time in the zone for showing times.
func (m *model) now() time.Time { return m.sourceTime().In(m.zone) }

// sourceTime returns the last time of the source, plus the time since then.
func (m *model) sourceTime() time.Time {
	clock := m.overview.Clock
	switch {
	case m.overview.Now.IsZero():
		return m.options.Now()
	case clock.Paused:
		return m.overview.Now
	}
	passed := m.options.Now().Sub(m.overviewAt)
	if clock.Speed > 0 {
		passed = time.Duration(float64(passed) * clock.Speed)
	}
	now := m.overview.Now.Add(passed)
	if clock.Seeks && now.After(clock.End) {
		return clock.End
	}
	return now
}

// shown returns the visible screen.
func (m *model) shown() screen {
	if n := len(m.opened); n > 0 {
		return m.opened[n-1]
	}
	return m.places[m.place]
}

// openPlace goes to a place, and closes the opened executions.
func (m *model) openPlace(place int) tea.Cmd {
	m.place, m.opened = (place+len(m.places))%len(m.places), nil
	return m.refreshShown()
}

// open opens an execution.
func (m *model) open(id string) tea.Cmd {
	if id == "" {
		m.notify("it belongs to no execution", true)
		return nil
	}
	m.opened = append(m.opened, newExecutionScreen(m, id))
	return m.refreshShown()
}

// openTyped opens an execution by a typed id, if it exists.
func (m *model) openTyped(id string) (cmd tea.Cmd, problem string) {
	if id == "" {
		return nil, "want the id of an execution"
	}
	return ask(nil, func(ctx context.Context) (func() tea.Cmd, error) {
		_, err := m.source.Execution(ctx, id)
		return func() tea.Cmd {
			if err != nil {
				m.notify("open: "+err.Error(), true)
				return nil
			}
			return m.open(id)
		}, err
	}), ""
}

// back closes the execution that was opened last.
func (m *model) back() tea.Cmd {
	if n := len(m.opened); n > 0 {
		m.opened = m.opened[:n-1]
	}
	return m.refreshShown()
}

// refreshShown reads what the visible screen needs.
func (m *model) refreshShown() tea.Cmd {
	if m.connection.lost {
		return nil
	}
	return m.shown().refresh(m.options.Now())
}

// screen is one of the views. For what concerns others it calls the model. Its methods return commands
// for what takes time.
type screen interface {
	// draw fills an area. The time is that of the source.
	draw(a canvas.Area, theme canvas.Theme, now time.Time)
	// key handles a key in the notation of tea.KeyMsg.String(). A key that it does not
	// handle has its general meaning. If time can be moved, the keys of the time bar, see
	// timeKey, get here only while the screen is typing.
	key(k string) (cmd tea.Cmd, handled bool)
	// outdate says that data read before may be outdated; moved, that it may be wrong: time was moved,
	// possibly back.
	outdate(moved bool)
	// refresh returns a command that reads again what is outdated, nil if nothing is. It is
	// called several times a second while the connection is up. The time is that of the
	// machine.
	refresh(now time.Time) tea.Cmd
	// hints returns its keys.
	hints() []hint
	// title returns its title.
	title() string
	// click handles a mouse click at a position of the canvas.
	click(x, y int, double bool) tea.Cmd
	// wheel scrolls.
	wheel(lines int)
}

// typingScreen is a screen with a text input: while the user types, it gets all keys but ctrl+c.
type typingScreen interface{ typing() bool }

// hint is a key and what it does. If more is set, only the help that `?` opens shows it.
type hint struct {
	keys, what string
	more       bool
}

// response is the result of a request to the source.
type response struct {
	of   screen // ignored if this screen has been closed; may be nil
	err  error  // the model reports a lost connection
	take func() tea.Cmd
}

// requestTimeout is the time limit for a request to the source.
const requestTimeout = 10 * time.Second

// ask returns a command that sends a request of a screen or, if of is nil, of the model to the source,
// with a time limit. The model then calls take within its loop.
func ask(of screen, question func(ctx context.Context) (take func() tea.Cmd, err error)) tea.Cmd {
	return askWithin(requestTimeout, of, question)
}

// askWithin is ask with another time limit.
func askWithin(limit time.Duration, of screen, question func(ctx context.Context) (take func() tea.Cmd, err error)) tea.Cmd {
	return func() tea.Msg {
		ctx, done := context.WithTimeout(context.Background(), limit) //nolint:forbidigo // a command ends by its deadline
		defer done()
		take, err := question(ctx)
		return response{of, err, take}
	}
}
