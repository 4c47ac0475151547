package tui

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/google/go-cmp/cmp"
)

// colourCodes are the codes of colours.
var colourCodes = regexp.MustCompile("\x1b\\[[0-9;]*m")

var update = flag.Bool("update", false, "rewrite the golden screens")

// player passes keys to a model, and runs its commands immediately.
type player struct {
	t       *testing.T
	m       *model
	now     time.Time
	out     bytes.Buffer
	quit    bool
	partial []tea.Cmd // commands that are not run, while holding
	hold    bool
}

// playing returns a player whose model shows a source and has been drawn once.
func playing(t *testing.T, source Source, w, h int, options Options) *player {
	t.Helper()
	p := &player{t: t, now: when.Add(time.Hour)}
	options.Now, options.Output, options.UTC = func() time.Time { return p.now }, &p.out, true
	p.m = newModel(source, options)
	p.send(tea.WindowSizeMsg{Width: w, Height: h})
	p.run(p.m.readOverview())
	p.pass(restingTick)
	return p
}

// run runs a command and those that follow from it.
func (p *player) run(cmd tea.Cmd) {
	p.t.Helper()
	if cmd == nil {
		return
	}
	if p.hold {
		p.partial = append(p.partial, cmd)
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.QuitMsg:
		p.quit = true
	case tea.BatchMsg:
		for _, c := range msg {
			p.run(c)
		}
	default:
		if reflect.TypeOf(msg).PkgPath() != "github.com/charmbracelet/bubbletea" {
			p.send(msg)
		}
	}
}

func (p *player) send(msg tea.Msg) {
	p.t.Helper()
	p.m.View()
	_, cmd := p.m.Update(msg)
	p.run(cmd)
	p.m.View()
}

// pass advances time.
func (p *player) pass(d time.Duration) *player {
	p.t.Helper()
	for ; d > 0; d -= restingTick {
		p.now = p.now.Add(min(d, restingTick))
		p.run(p.m.tick(p.now))
		p.m.View()
	}
	return p
}

// keys presses keys, given by name; "'text" types text.
func (p *player) keys(keys ...string) *player {
	p.t.Helper()
	for _, k := range keys {
		if text, ok := strings.CutPrefix(k, "'"); ok {
			p.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text)})
			continue
		}
		p.send(keyMsg(k))
	}
	return p
}

// keyMsg returns the message of a key.
func keyMsg(name string) tea.KeyMsg {
	for typ := tea.KeyType(-100); typ < 128; typ++ {
		if k := (tea.KeyMsg{Type: typ}); k.String() == name && typ != tea.KeyRunes {
			return k
		}
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(name)}
}

func (p *player) click(x, y int) *player {
	p.t.Helper()
	p.send(tea.MouseMsg{X: x, Y: y, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	return p
}

// text returns the screen without its colours.
func (p *player) text() string {
	return picture(p.m.draw())
}

// has fails unless the screen contains the text.
func (p *player) has(texts ...string) *player {
	p.t.Helper()
	for _, text := range texts {
		if screen := p.text(); !strings.Contains(screen, text) {
			p.t.Errorf("the screen does not show %q:\n%s", text, screen)
		}
	}
	return p
}

func (p *player) lacks(text string) *player {
	p.t.Helper()
	if screen := p.text(); strings.Contains(screen, text) {
		p.t.Errorf("the screen shows %q:\n%s", text, screen)
	}
	return p
}

// golden compares a screen with its golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "screens", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got, -update rewrites it):\n%s", file, diff)
	}
}

// scenes returns the golden screens, each with the keys that lead to it.
var scenes = []struct {
	name     string
	playback bool
	keys     []string
}{
	{"overview", false, nil},
	{"overview_playback", true, nil},
	{"executions", false, []string{"2", "j", "j", "x"}},
	{"executions_filter", false, []string{"2", "/", "'status:f order"}},
	{"executions_sorted", false, []string{"2", "s", "s", "v"}},
	{"executions_detail", false, []string{"2", "d"}},
	{"timers", false, []string{"3"}},
	{"timers_detail", false, []string{"3", "j", "enter", "j"}},
	{"dead_letters", false, []string{"4"}},
	{"events", false, []string{"5", "G"}},
	{"events_playback", true, []string{"5"}},
	{"execution", false, []string{"2", "enter"}},
	{"execution_breakpoint", true, []string{"2", "enter", "G", "B", ">"}},
	{"confirm", false, []string{"2", "c"}},
	{"confirm_dead_letters", false, []string{"4", "x", "x", "R"}},
	{"reschedule", false, []string{"3", "M", "'PT1", "enter"}},
	{"emit", false, []string{"e"}},
	{"help", false, []string{"3", "?"}},
	{"help_playback", true, []string{"?"}},
	{"commands", false, []string{":", "'e"}},
}

// Each screen matches its golden file, on a small and on a large terminal.
func TestScreens(t *testing.T) {
	t.Parallel()
	for _, scene := range scenes {
		for _, size := range [][2]int{{80, 24}, {160, 48}} {
			t.Run(fmt.Sprintf("%s_%dx%d", scene.name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				var source Source = newScripted()
				if scene.playback {
					source = newPlayback()
				}
				p := playing(t, source, size[0], size[1], Options{}).keys(scene.keys...).pass(time.Second)
				golden(t, filepath.Base(t.Name())+".txt", p.text())
			})
		}
	}
}

// Screens for a light background, a dark one and a terminal without colours differ only in their
// colour codes.
func TestScreensInColour(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{
		"dark": {Background: Dark}, "light": {Background: Light}, "none": {Background: None}, "ascii": {Background: None, ASCII: true},
	} {
		for _, size := range [][2]int{{80, 24}, {160, 48}} {
			t.Run(fmt.Sprintf("overview_%s_%dx%d", name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				p := playing(t, newScripted(), size[0], size[1], options)
				golden(t, filepath.Base(t.Name())+".ansi", strings.ReplaceAll(p.m.View(), "\x1b", "␛")+"\n")
			})
		}
	}
}
