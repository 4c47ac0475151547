// Package tui shows an engine, a run or a recording in a terminal, and turns keys
// into actions. It sees all of them through a Source.
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

// Options say how the screen looks, and where it is.
type Options struct {
	Title      string // of the terminal's window
	Background Background
	Ask        bool // the terminal for its background: if it answers, that counts
	ASCII      bool // nothing but ASCII
	Mouse      bool

	Every time.Duration  // between two looks at how all of it stands
	Zone  *time.Location // that times can be shown in instead of UTC; the machine's, if nil
	Open  string         // an execution to begin with
	Place string         // or a place, by the name of its command: "timers", "events"

	Input  io.Reader // the terminal, if nil
	Output io.Writer // the terminal, if nil
	Now    func() time.Time
}

// Defaults are the options of an ordinary terminal.
func Defaults() Options {
	return Options{Title: "flunq top", Mouse: true, Every: time.Second, Now: time.Now} //nolint:forbidigo // a screen shows real time
}

// For makes the options fit a terminal as its environment tells of it: NO_COLOR,
// TERM, COLORFGBG, and whether the language settings say UTF-8.
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
	o.ASCII = o.ASCII || term == "linux" || term == "dumb" || !speaksUnicode(getenv)
	return o
}

// lightBackground reads "15;0", which some terminals set: the last number is the
// colour of the background.
func lightBackground(colours string) bool {
	back := colours[strings.LastIndexByte(colours, ';')+1:]
	return back == "7" || back == "15"
}

// speaksUnicode looks for the first language setting there is.
func speaksUnicode(getenv func(name string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(getenv(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// Run shows a source until the user quits or the context ends, neither of which is
// an error.
func Run(ctx context.Context, source Source, options Options) error {
	if options.Output == nil {
		options.Output = os.Stdout //nolint:forbidigo // the clipboard is the terminal's
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

// divertLog sends what is written to the log of the process, such as what net/http has to
// say, elsewhere, since it would be written over the screen. The result puts it back.
func divertLog(to func(line string)) (restore func()) {
	before, flags := log.Writer(), log.Flags()
	log.SetFlags(0)
	log.SetOutput(diverted(to))
	return func() {
		log.SetOutput(before)
		log.SetFlags(flags)
	}
}

// diverted is a writer of lines. It does not wait: whoever logs may be what draws.
type diverted func(line string)

func (d diverted) Write(p []byte) (int, error) {
	go d(strings.TrimSpace(string(p)))
	return len(p), nil
}
