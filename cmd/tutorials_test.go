package cmd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// block is an example of a tutorial: lines indented by four columns.
type block struct {
	line  int
	lines []string
}

func blocks(text string) []block {
	var out []block
	inside := false
	for i, line := range strings.Split(text, "\n") {
		code, ok := strings.CutPrefix(line, "    ")
		if ok && !inside {
			out = append(out, block{line: i + 1})
		}
		if inside = ok; ok {
			out[len(out)-1].lines = append(out[len(out)-1].lines, code)
		}
	}
	return out
}

// Every example of the tutorials works: commands print what they say, and tasks give the
// output that their comment promises.
func TestTutorials(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]int{"dsl": 11, "mocks": 7, "tests": 6} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("help", page+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			found := blocks(string(text))
			if len(found) != want {
				t.Errorf("%d examples, want %d", len(found), want)
			}
			for _, b := range found {
				b.run(t, folder)
			}
		})
	}
}

func (b block) run(t *testing.T, folder string) {
	t.Helper()
	first := b.lines[0]
	name, isFile := strings.CutPrefix(first, "# ")
	input, output, isTask := strings.Cut(name, " gives ")
	switch {
	case strings.HasPrefix(first, "$ flunq "):
		if got, want := b.command(t, folder, first[2:]), strings.Join(b.lines[1:], "\n"); got != want {
			t.Errorf("line %d: %s\ngot\n%s\nwant\n%s", b.line, first, got, want)
		}
	case isFile && isTask:
		b.tasks(t, folder, input, output)
	case isFile:
		b.write(t, filepath.Join(folder, name), strings.Join(b.lines[1:], "\n"))
		if strings.Count(name, ".") == 1 {
			b.command(t, folder, "flunq validate "+name)
		}
	default:
		t.Errorf("line %d: %q begins neither with a file, nor with an input and an output, nor with a command", b.line, first)
	}
}

// tutorialMocks are the services of the tasks.
const tutorialMocks = `
http:
  - {match: {url: "https://shop.example/stock/tea"}, respond: {body: {count: 5}}}
  - {match: {url: "https://shop.example/orders"}, respond: {status: 503}}
events: [{after: P1D, type: com.example.paid, data: {order: 7, amount: 12}}]
`

// tasks runs tasks with an input, and compares the output.
func (b block) tasks(t *testing.T, folder, input, output string) {
	t.Helper()
	document := "document: {dsl: '1.0.3', namespace: demo, name: tasks, version: '0.1.0'}\ndo:\n  " + strings.Join(b.lines[1:], "\n  ") + "\n"
	b.write(t, filepath.Join(folder, "tasks.yaml"), document)
	b.write(t, filepath.Join(folder, "tasks.mocks.yaml"), tutorialMocks)
	b.write(t, filepath.Join(folder, "tasks.input.json"), input)
	b.command(t, folder, "flunq validate tasks.yaml")
	var want bytes.Buffer
	if err := json.Compact(&want, []byte(output)); err != nil {
		t.Fatalf("line %d: %v", b.line, err)
	}
	if got := b.command(t, folder, "flunq run tasks.yaml -q -o json"); got != want.String() {
		t.Errorf("line %d: the output is %s, want %s", b.line, got, want.String())
	}
}

func (b block) write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs a command in a folder, and returns what it prints.
func (b block) command(t *testing.T, folder, line string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", line)
	c.Dir = folder
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	if err := c.Run(); err != nil {
		t.Errorf("line %d: %s: %v\n%s", b.line, line, err, fmt.Sprint(out.String(), errOut.String()))
	}
	return strings.TrimRight(out.String(), "\n")
}
