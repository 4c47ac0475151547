// Package tui shows an engine, a run or a recording in a terminal, and turns keys into actions. It
// reads all of them through a Source.
//
// Each view is a screen of the model: the overview, a listScreen for each of the tables, and an
// executionScreen for each execution that was opened.
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
	"github.com/muesli/termenv"

	"flunq.io/flunq/tui/canvas"
	_ "flunq.io/flunq/tui/quiet" // before bubbletea asks the terminal
)

// Options configure the screen.
type Options struct {
	Title      string     // of the terminal's window
	Background Background // Auto: dark, unless the terminal says that it is light
	ASCII      bool       // only ASCII characters
	Mouse      bool

	Every time.Duration  // polling interval of the overview
	Zone  *time.Location // for times not shown in UTC; nil: the machine's
	UTC   bool           // show times in UTC at first
	Open  string         // the first execution to show

	Input  io.Reader // nil: the terminal
	Output io.Writer // nil: the terminal
	Now    func() time.Time
}

// Defaults returns the options of an ordinary terminal.
func Defaults() Options {
	return Options{Title: "flunq top", Mouse: true, Every: time.Second, Now: time.Now} //nolint:forbidigo // the screen shows real time
}

// For adapts the options to a terminal's environment: TERM and COLORFGBG.
func (o Options) For(getenv func(name string) string) Options {
	console := getenv("TERM") == "linux"
	o.ASCII = o.ASCII || console
	colours := getenv("COLORFGBG") // such as 15;0: the last one is the background
	switch back := colours[strings.LastIndexByte(colours, ';')+1:]; {
	case back == "7" || back == "15":
		o.Background = Light
	case back != "" || console: // the Linux console does not reply
		o.Background = Dark
	}
	return o
}

// Background is the background of a terminal.
type Background int

// The backgrounds. None stands for a terminal without colours.
const (
	Auto Background = iota
	Dark
	Light
	None
)

// xterm is the environment for termenv: it would not ask tmux, which also replies.
type xterm struct{}

func (xterm) Environ() []string { return nil }

func (xterm) Getenv(name string) string {
	if name == "TERM" {
		return "xterm"
	}
	return ""
}

// paletteOf returns a palette of the terminal's own sixteen colours, which its user has chosen.
// Faint is an attribute, not a colour: in some palettes (Solarized) bright black is the
// background itself, and the other bright colours are greys.
func paletteOf(b Background) canvas.Palette {
	switch b {
	case Light:
		return canvas.Palette{canvas.Normal: "", canvas.Faint: "2", canvas.Accent: "34", canvas.Good: "32", canvas.Bad: "31", canvas.Warn: "35", canvas.Busy: "36", canvas.Calm: "34", canvas.Bar: "97;44"}
	case None:
		return canvas.Palette{canvas.Bar: "7"}
	default:
		return canvas.Palette{canvas.Normal: "", canvas.Faint: "2", canvas.Accent: "36", canvas.Good: "32", canvas.Bad: "91", canvas.Warn: "33", canvas.Busy: "36", canvas.Calm: "94", canvas.Bar: "97;44"}
	}
}

// Run shows a source until the user quits or the context ends, neither of which is an error.
func Run(ctx context.Context, source Source, options Options) error {
	if options.Output == nil {
		options.Output = os.Stdout //nolint:forbidigo // the terminal, which also gets what is copied
	}
	if options.Background == Auto && !termenv.NewOutput(options.Output, termenv.WithEnvironment(xterm{})).HasDarkBackground() {
		options.Background = Light
	}
	m := newModel(source, options)
	settings := []tea.ProgramOption{tea.WithContext(ctx), tea.WithAltScreen(), tea.WithoutSignalHandler(), tea.WithFPS(30), tea.WithOutput(options.Output)}
	if options.Mouse {
		settings = append(settings, tea.WithMouseCellMotion())
	}
	if options.Input != nil {
		settings = append(settings, tea.WithInput(options.Input))
	}
	// net/http writes to the log of the process, which would overwrite the screen.
	before := log.Writer()
	log.SetOutput(io.Discard)
	defer log.SetOutput(before)
	_, err := tea.NewProgram(m, settings...).Run()
	if err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}
