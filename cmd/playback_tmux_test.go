package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// terminal is a tmux with one window.
type terminal struct {
	t      *testing.T
	socket string
}

// openTerminal opens a terminal in a temporary folder. Without tmux it skips the test.
func openTerminal(t *testing.T, size ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux")
	}
	term := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	term.tmux(append([]string{
		"-f", "/dev/null", "new-session", "-d", "-c", t.TempDir(),
		"-e", "LC_ALL=C.UTF-8", "-e", "FLUNQ_CONFIG=", "-e", "PS1=$ ", "-e", "PATH=" + os.Getenv("PATH"),
	}, append(size, "sh")...)...)
	t.Cleanup(func() { term.tmux("kill-server") })
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// keys presses keys, by their names in tmux.
func (term *terminal) keys(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, keys...)...)
}

// patience is how long a step may take on a busy machine.
const patience = 2 * time.Minute

// await waits until the screen contains all texts.
func (term *terminal) await(texts ...string) string {
	term.t.Helper()
	var screen string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		screen = term.tmux("capture-pane", "-p")
		missing := false
		for _, text := range texts {
			missing = missing || !strings.Contains(screen, text)
		}
		if !missing {
			return screen
		}
	}
	term.t.Fatalf("no %q within %v on\n%s", texts, patience, screen)
	return ""
}

// A run is watched in a real terminal and stopped. Another one is played to its end and
// moved back and forth. Then its recording is played.
func TestPlaybackInTerminal(t *testing.T) {
	t.Parallel()
	for name, size := range map[string][]string{"small": {"-x", "80", "-y", "24"}, "large": {"-x", "160", "-y", "48"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t, size...)
			term.keys("flunq run --example reminder --speed 60x --tui; echo exit $?", "Enter")
			term.await("a run of reminder.yaml", "✔ sendInvoice", "◔ waitTwoWeeks", "playing")
			term.keys("Space")
			term.await("paused")
			term.keys("Space")
			term.await("playing")
			term.keys("q")
			term.await("exit 130")

			term.keys("clear; flunq run --example reminder --record r.jsonl --tui </dev/null; echo exit $?", "Enter")
			term.await("a run of reminder.yaml", "✔ waitTheRest", "✔ close", "+30d", "paused")
			term.keys("T")
			term.await("+30d", "▸ waitTheRest")
			term.keys("T")
			term.await("+14d", "▸ waitTwoWeeks", "paused")
			term.keys("n")
			term.await("+14d", "✔ waitTwoWeeks")
			term.keys("t")
			term.await("+30d", "▸ waitTheRest")
			term.keys("t")
			term.await("no timer fires after this moment")
			term.keys("T")
			term.await("+14d", "▸ waitTwoWeeks")
			term.keys("p")
			term.await("+0s", "◔ waitTwoWeeks", "in 14d")
			term.keys("Escape")
			term.await("Due next")
			term.keys("3")
			term.await("Timers", "in 14d", "/do/1/waitTwoWeeks")
			term.keys("Space", "2")
			term.await("+30d", "completed", "paused")
			term.keys("q")
			term.await(`"status": "paid"`, "exit 0")

			term.keys("clear; flunq replay r.jsonl --at P20D --tui; echo exit $?", "Enter")
			term.await("the recording r.jsonl", "waitTheRest", "in 10d", "paused")
			term.keys("G", "B") // at close
			term.await("●○ close")
			term.keys("N")
			term.await("before checkAgain")
			term.keys(">")
			term.await("before close", "●▸ close")
			term.keys("q")
			term.await("ok       r.jsonl  completed", "exit 0")
		})
	}
}

// Playback ends where the replay of a recording differs, and shows the difference.
func TestDifferenceInTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, "-x", "120", "-y", "40")
	term.keys("flunq run --example reminder -q --record r.jsonl; sed -i '/timer.scheduled/s/waitTheRest/waitTheRust/g' r.jsonl; clear", "Enter")
	term.keys("flunq replay r.jsonl --at P30D --tui; echo exit $?", "Enter")
	term.await("the replay differs here: recorded: the wait of task waitTheRust", "paused")
	term.keys("Escape")
	term.await("▲ the replay differs: event 15", "▲ recorded:", "▲ replayed:")
	term.keys("q")
	term.await("differs  r.jsonl  not as recorded", "exit 4")
}
