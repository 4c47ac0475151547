// Package tui shows an engine, a run or a recording in a terminal, and turns keys into actions. It
// reads all of them through a Source.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	_ "flunq.io/flunq/tui/quiet" // before bubbletea asks the terminal
)

// Options configure the screen.
type Options struct {
	Title      string // of the terminal's window
	Background Background
	Ask        bool // ask the terminal for its background, which takes precedence
	ASCII      bool // only ASCII characters
	Mouse      bool

	Every time.Duration  // polling interval of the overview
	Zone  *time.Location // for times not shown in UTC; nil: the machine's
	UTC   bool           // show times in UTC at first
	Open  string         // the first execution to show
	Place string         // or the first place, by the name of its command: "timers", "events"

	Input  io.Reader // nil: the terminal
	Output io.Writer // nil: the terminal
	Now    func() time.Time
}

// Defaults returns the options of an ordinary terminal.
func Defaults() Options {
	return Options{Title: "flunq top", Mouse: true, Every: time.Second, Now: time.Now} //nolint:forbidigo // the screen shows real time
}

// For adapts the options to a terminal's environment: NO_COLOR, TERM and COLORFGBG.
func (o Options) For(getenv func(name string) string) Options {
	term := getenv("TERM")
	switch {
	case getenv("NO_COLOR") != "", term == "dumb":
		o.Background = None
	case lightBackground(getenv("COLORFGBG")):
		o.Background = Light
	default:
		o.Ask = term != "linux"
	}
	o.ASCII = o.ASCII || term == "linux" || term == "dumb"
	return o
}

// lightBackground parses COLORFGBG, such as "15;0": the last number is the background colour.
func lightBackground(colours string) bool {
	back := colours[strings.LastIndexByte(colours, ';')+1:]
	return back == "7" || back == "15"
}

// Run shows a source until the user quits or the context ends, neither of which is an error.
func Run(ctx context.Context, source Source, options Options) error {
	if options.Output == nil {
		options.Output = os.Stdout //nolint:forbidigo // the terminal's clipboard
	}
	m := newModel(source, options)
	settings := []tea.ProgramOption{tea.WithContext(ctx), tea.WithAltScreen(), tea.WithoutSignalHandler(), tea.WithFPS(30), tea.WithOutput(options.Output)}
	if options.Mouse {
		settings = append(settings, tea.WithMouseCellMotion())
	}
	var program *tea.Program
	in, asks := listens(options)
	switch {
	case asks:
		m.asks = true
		settings = append(settings, tea.WithInput(&listener{File: in, answered: func(b Background) { program.Send(gotBackground{b}) }}))
	case options.Input != nil:
		settings = append(settings, tea.WithInput(options.Input))
	}
	program = tea.NewProgram(m, settings...)
	defer divertLog(func(line string) { program.Send(logged{line}) })()
	_, err := program.Run()
	if err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}

// logged is a line that something else wrote to the log of the process.
type logged struct{ line string }

// divertLog redirects the log of the process, to which net/http writes, since it would overwrite
// the screen. The result restores it.
func divertLog(to func(line string)) (restore func()) {
	before, flags := log.Writer(), log.Flags()
	log.SetFlags(0)
	log.SetOutput(lineWriter(to))
	return func() {
		log.SetOutput(before)
		log.SetFlags(flags)
	}
}

// lineWriter is a writer of lines. It does not block: the drawing code may write to the log.
type lineWriter func(line string)

func (d lineWriter) Write(p []byte) (int, error) {
	go d(strings.TrimSpace(string(p)))
	return len(p), nil
}
