package top_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/cmd"
)

// asFlunq is the environment variable that makes the test program act as flunq.
const asFlunq = "FLUNQ_TEST_AS_FLUNQ"

func TestMain(m *testing.M) {
	if os.Getenv(asFlunq) != "" {
		os.Exit(cmd.Main())
	}
	os.Exit(m.Run())
}

// terminal is a real terminal in which flunq runs.
type terminal struct {
	testing.TB

	socket string
}

// newTerminal runs flunq in a terminal. Without tmux it skips the test.
func newTerminal(t testing.TB, width, height string, args ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		const missing = "TERMINAL NOT TESTED: no tmux in the PATH (apt-get install tmux)"
		if os.Getenv("FLUNQ_REQUIRE_TMUX") == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	term := &terminal{TB: t, socket: filepath.Join(folder, "tmux")}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	line := []string{"-u", "-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-e", asFlunq + "=1", "-e", "LC_ALL=C.UTF-8", "-e", "HOME=" + folder}
	term.tmux(append(append(line, program), args...)...)
	return term
}

func (t *terminal) tmux(args ...string) string {
	t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", t.socket}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// keys presses keys, by their names in tmux.
func (t *terminal) keys(keys ...string) {
	t.Helper()
	t.tmux(append([]string{"send-keys"}, keys...)...)
}

// write types text.
func (t *terminal) write(text string) {
	t.Helper()
	t.tmux("send-keys", "-l", text)
}

func (t *terminal) screen() string {
	t.Helper()
	return t.tmux("capture-pane", "-p")
}

// shows waits until the screen contains all texts, and none of those that begin with "!".
func (t *terminal) shows(texts ...string) {
	t.Helper()
	var screen, missing string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		screen, missing = t.screen(), ""
		for _, text := range texts {
			unwanted, not := strings.CutPrefix(text, "!")
			if not == strings.Contains(screen, unwanted) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
	}
	t.Fatalf("%q is not so within %v on:\n%s", missing, patience, screen)
}

// over waits until flunq has ended.
func (t *terminal) over() {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(30 * time.Millisecond) {
		if exec.Command("tmux", "-S", t.socket, "has-session").Run() != nil {
			return
		}
	}
	t.Fatalf("flunq is still running:\n%s", t.screen())
}
