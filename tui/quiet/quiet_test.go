package quiet_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	_ "flunq.io/flunq/tui"
)

// quiet is initialized before bubbletea.
func TestOrder(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "-test.run=^$")
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	quiet := strings.Index(string(out), "init flunq.io/flunq/tui/quiet ")
	asks := strings.Index(string(out), "init github.com/charmbracelet/bubbletea ")
	if quiet < 0 || asks < 0 || quiet > asks {
		t.Errorf("in this order:\n%s", out)
	}
}
