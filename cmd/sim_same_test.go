package cmd_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Processes with different numbers of threads write the same output and the same recording
// of a failure for the same seeds.
func TestSimSameBytes(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	flunq := filepath.Join(dir, "flunq")
	if err := os.Symlink(self, flunq); err != nil {
		t.Fatal(err)
	}
	var first []byte
	for n, procs := range []int{1, 4, 2} {
		record := filepath.Join(dir, fmt.Sprintf("%d.jsonl", n))
		c := exec.CommandContext(t.Context(), flunq, "sim", "--example", "order-saga", "--seeds", "3:40", "--singles", "60",
			"--faults", "all", "--executions", "2", "-q", "-o", "json", "--record", record, "--once", "* *")
		c.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", procs))
		out, err := c.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 4 {
			t.Fatalf("%v, want exit code 4\n%s", err, out)
		}
		recording, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		all := append(out, recording...)
		if first == nil {
			first = all
		}
		if !bytes.Equal(first, all) {
			t.Fatalf("process %d with GOMAXPROCS=%d wrote other output, or another recording, than the first process", n, procs)
		}
	}
}
