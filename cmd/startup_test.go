package cmd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// cmd/startup is initialized before the packages that allocate most.
func TestStartupOrder(t *testing.T) {
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
	text := string(out)
	startup := strings.Index(text, "init flunq.io/flunq/cmd/startup ")
	for _, large := range []string{"github.com/santhosh-tekuri/jsonschema/v6", "flunq.io/flunq/engine/dsl"} {
		if at := strings.Index(text, "init "+large+" "); startup < 0 || at < startup {
			t.Errorf("%s is not initialized after it, in this order:\n%s", large, out)
		}
	}
}
