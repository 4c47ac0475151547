package cmd_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Processes with different numbers of threads write the same output and the same recording
// for the same document, input and seed.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	flunq := filepath.Join(dir, "flunq")
	if err := os.Symlink(self, flunq); err != nil { // the name is what makes it flunq
		t.Fatal(err)
	}
	for _, example := range []string{"order-saga", "suppliers", "onboarding", "approval"} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			var first []byte
			for n := range 6 {
				record := filepath.Join(dir, fmt.Sprintf("%s-%d.jsonl", example, n))
				c := exec.CommandContext(t.Context(), flunq, "run", "--example", example, "--seed", "7", "-q", "--record", record)
				c.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", []int{1, 2, 4}[n%3]))
				out, err := c.Output()
				if err != nil {
					t.Fatal(err)
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
					t.Fatalf("process %d wrote other bytes than the first", n)
				}
			}
		})
	}
}
