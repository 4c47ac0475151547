package cmd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Two packages must be initialized before others: cmd/startup before those that allocate most, tui/quiet
// before bubbletea.
func TestInitializationOrder(t *testing.T) {
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
	at := func(name string) int { return strings.Index(string(out), "init "+name+" ") }
	for first, others := range map[string][]string{
		"flunq.io/flunq/cmd/startup": {"github.com/santhosh-tekuri/jsonschema/v6", "flunq.io/flunq/engine/dsl"},
		"flunq.io/flunq/tui/quiet":   {"github.com/charmbracelet/bubbletea"},
	} {
		for _, other := range others {
			if at(first) < 0 || at(first) > at(other) {
				t.Errorf("%s is not initialized before %s, in this order:\n%s", first, other, out)
			}
		}
	}
}
