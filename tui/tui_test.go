package tui_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/tui"
)

// The environment of a terminal determines what it can show.
func TestOptionsFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env        map[string]string
		background tui.Background
		ascii      bool
	}{
		"usual":   {map[string]string{"TERM": "xterm-256color"}, tui.Auto, false},
		"light":   {map[string]string{"TERM": "rxvt", "COLORFGBG": "0;default;15"}, tui.Light, false},
		"dark":    {map[string]string{"TERM": "rxvt", "COLORFGBG": "15;0"}, tui.Dark, false},
		"console": {map[string]string{"TERM": "linux"}, tui.Dark, true},
		"nothing": {nil, tui.Auto, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tui.Defaults().For(func(name string) string { return c.env[name] })
			if o.Background != c.background || o.ASCII != c.ascii {
				t.Errorf("background %v, ascii %v, want %v, %v", o.Background, o.ASCII, c.background, c.ascii)
			}
		})
	}
}

// empty is a Source with nothing in it.
type empty struct{ tui.Source }

func (empty) Overview(context.Context) (tui.Overview, error) {
	return tui.Overview{Place: "nowhere"}, nil
}

// Run ends when the user quits or its context ends.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	options := tui.Defaults()
	options.Input, options.Output = strings.NewReader("?xq"), &bytes.Buffer{}
	if err := tui.Run(ctx, empty{}, options); err != nil || ctx.Err() != nil {
		t.Errorf("Run = %v, %v", err, ctx.Err())
	}
	soon, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	reader, writer := io.Pipe()
	defer writer.Close()
	options.Input = reader
	if err := tui.Run(soon, empty{}, options); err != nil {
		t.Errorf("Run = %v after its context ended", err)
	}
}
