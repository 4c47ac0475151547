package run_test

import (
	"testing"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/run"
	"flunq.io/flunq/tui"
)

// The screen has colours if --color asks for them, whatever the environment says.
func TestPlaybackScreenColor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		color, noColor string
		want           tui.Background
	}{{"auto", "", tui.Auto}, {"auto", "1", tui.None}, {"always", "1", tui.Auto}, {"never", "", tui.None}} {
		env := func(name string) string {
			return map[string]string{"NO_COLOR": c.noColor, "TERM": "xterm"}[name]
		}
		sh := &cli.Shell{Streams: cli.Streams{Env: env, Terminal: true}, Color: cli.NewChoice(c.color)}
		if got := run.PlaybackScreen(sh, "title", "").Background; got != c.want {
			t.Errorf("--color %s, NO_COLOR=%q: background %v, want %v", c.color, c.noColor, got, c.want)
		}
	}
}
