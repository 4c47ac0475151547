package check

import (
	"os"
	"path/filepath"
	"testing"
)

// A change between reading a file and recording its state is noticed.
func TestWatchSeesChangesDuringReading(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "order.test.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := &watched{state: map[string]map[string]string{}, stamps: map[string]string{}}
	write("tests: []")
	if _, err := w.readStamped(file); err != nil {
		t.Fatal(err)
	}
	write("tests: [{name: a}]")
	w.ran(&testFile{name: file, needs: []string{file}})
	if len(w.changed(file)) == 0 {
		t.Error("the change would never be seen")
	}
	clear(w.stamps)
	if _, err := w.readStamped(file); err != nil {
		t.Fatal(err)
	}
	w.ran(&testFile{name: file, needs: []string{file}})
	if len(w.changed(file)) > 0 {
		t.Error("a change is seen where there is none")
	}
}
