// Package tui shows an engine, a run or a recording in a terminal, and turns keys into actions. It
// reads all of them through a Source.
//
// Each view is a screen of the model: the overview, a listScreen for each of the tables, and an
// executionScreen for each execution that was opened.
package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/background"
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
	term := getenv("TERM")
	if light, ok := background.FromEnvironment(getenv("COLORFGBG")); ok && light {
		o.Background = Light
	} else if ok || term == "linux" { // the Linux console does not reply
		o.Background = Dark
	}
	o.ASCII = o.ASCII || term == "linux"
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

// gotBackground is the terminal's reply about its background.
type gotBackground struct{ light bool }

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
	m := newModel(source, options)
	settings := []tea.ProgramOption{tea.WithContext(ctx), tea.WithAltScreen(), tea.WithoutSignalHandler(), tea.WithFPS(30), tea.WithOutput(options.Output)}
	if options.Mouse {
		settings = append(settings, tea.WithMouseCellMotion())
	}
	if options.Input != nil {
		settings = append(settings, tea.WithInput(options.Input))
	}
	var program *tea.Program
	if terminal, ok := cmp.Or[io.Reader](options.Input, os.Stdin).(*os.File); ok && options.Background == Auto && runtime.GOOS != "windows" {
		var reader *background.Reader
		if reader, m.asksBackground = background.NewReader(terminal, func(light bool) { program.Send(gotBackground{light}) }); m.asksBackground {
			settings = append(settings, tea.WithInput(reader))
		}
	}
	// net/http writes to the log of the process, which would overwrite the screen.
	before := log.Writer()
	log.SetOutput(io.Discard)
	defer log.SetOutput(before)
	program = tea.NewProgram(m, settings...)
	_, err := program.Run()
	if err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}
