package cmd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
)

// flunq runs one command line in this process.
func flunq(t *testing.T, change func(*cli.Streams), args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	s := cli.Streams{
		In: strings.NewReader(""), Out: &out, Err: &errOut,
		Env: environment(map[string]string{"LANG": "C.UTF-8"}),
	}
	if change != nil {
		change(&s)
	}
	code = cmd.Execute(t.Context(), args, s)
	return out.String(), errOut.String(), code
}

// environment returns the environment of a command: some variables, and a home folder that does not exist.
func environment(variables map[string]string) func(name string) string {
	return func(name string) string {
		if value, ok := variables[name]; ok || name != "HOME" {
			return value
		}
		return "/no-home"
	}
}

// Errors escape control characters in the arguments that they show.
func TestErrorsAreHarmless(t *testing.T) {
	t.Parallel()
	_, stderr, code := flunq(t, nil, "graph", "\x1b[2J\u202e.yaml")
	want := "flunq: \\u001b[2J\\u202e.yaml: no such file or directory\n"
	if stderr != want || code != 2 {
		t.Errorf("got %q, code %d, want %q, code 2", stderr, code, want)
	}
}

// Data above the limit is called large, not invalid.
func TestLargeData(t *testing.T) {
	t.Parallel()
	large := written(t, "large.json", `"`+strings.Repeat("x", 1<<20)+`"`)
	_, errs, code := flunqWith(t.Context(), map[string]string{}, "run", "--example", "reminder", "--input", "@"+large)
	if want := "large.json has 1048578 bytes, the limit is 1048576\n"; code != int(cli.ExitMisuse) || !strings.HasSuffix(errs, want) || strings.Contains(errs, "neither") {
		t.Errorf("code %d, stderr %q, want code 2 and %q", code, errs, want)
	}
}

// Each line of the help fits into 80 columns, and no description of a flag begins with the
// name of its value.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	listed := regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`)
	doubled := regexp.MustCompile(`--\S+ (\S+) +(\S+)`)
	var check func(command ...string)
	check = func(command ...string) {
		page, _, code := flunq(t, nil, append([]string{"help"}, command...)...)
		if code != 0 {
			t.Errorf("help %q: code %d", command, code)
		}
		for line := range strings.Lines(page) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("help %q: %d columns: %s", command, n, line)
			}
			if m := doubled.FindStringSubmatch(line); m != nil && strings.EqualFold(m[1], m[2]) {
				t.Errorf("help %q: %s twice: %s", command, m[1], line)
			}
		}
		_, commands, isParent := strings.Cut(page, "\nCommands:\n")
		if len(command) == 0 {
			commands, isParent = page, true
		}
		commands, _, _ = strings.Cut(commands, "\nFlags")
		for _, m := range listed.FindAllStringSubmatch(commands, -1) {
			if isParent {
				check(append(slices.Clone(command), m[1])...)
			}
		}
	}
	check()
}

// Each command is in a group, and so in the overview.
func TestOverview(t *testing.T) {
	t.Parallel()
	page, _, _ := flunq(t, nil)
	commands, _, _ := flunq(t, nil, "__complete", "")
	if n := strings.Count(commands, "\n"); n < 40 {
		t.Errorf("%d commands:\n%s", n, commands)
	}
	for line := range strings.Lines(commands) {
		if name, _, isCommand := strings.Cut(line, "\t"); isCommand && name != "help" && !strings.Contains(page, "\n  "+name+" ") {
			t.Errorf("%s is not in the overview: it needs a GroupID", name)
		}
	}
}

// Colours are for terminals, unless the user says otherwise.
func TestColor(t *testing.T) {
	t.Parallel()
	terminal := func(s *cli.Streams) { s.Terminal, s.ErrTerminal = true, true }
	noColor := func(s *cli.Streams) {
		terminal(s)
		s.Env = func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
	}
	for _, test := range []struct {
		name   string
		change func(*cli.Streams)
		args   []string
		want   bool
	}{
		{"pipe", nil, nil, false},
		{"terminal", terminal, nil, true},
		{"NO_COLOR", noColor, nil, false},
		{"never", terminal, []string{"--color", "never"}, false},
		{"always", noColor, []string{"--color", "always"}, true},
	} {
		stdout, _, _ := flunq(t, test.change, test.args...)
		if got := strings.Contains(stdout, "\x1b["); got != test.want {
			t.Errorf("%s: coloured is %v, want %v", test.name, got, test.want)
		}
	}
}

// On a terminal a graph is a tree that fits into it.
func TestGraphOnTerminal(t *testing.T) {
	t.Parallel()
	document := `document: {dsl: '1.0.3', namespace: shop, name: wide, version: '1.0.0'}
do:
  - first:
      call: http
      with: {method: get, endpoint: https://very.long.example/with/a/path/that/does/not/fit}
`
	stdout, stderr, code := flunq(t, func(s *cli.Streams) {
		s.Terminal, s.Width, s.In = true, 40, strings.NewReader(document)
	}, "graph", "--color=never", "-")
	want := "shop/wide 1.0.0\n├─ first  call GET https://very.long.ex…\n└● end\n"
	if stdout != want || code != 0 {
		t.Errorf("got\n%s%s(code %d), want\n%s", stdout, stderr, code, want)
	}
}

// Waiting for stdin can be interrupted.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"graph", "validate"} {
		in, writer := io.Pipe()
		t.Cleanup(func() { writer.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var errOut bytes.Buffer
		code := cmd.Execute(ctx, []string{command, "-"}, cli.Streams{
			In: in, Out: io.Discard, Err: &errOut, Env: environment(nil),
		})
		if want := "flunq: interrupted\n"; errOut.String() != want || code != 130 {
			t.Errorf("%s: got %q, code %d, want %q, code 130", command, errOut.String(), code, want)
		}
	}
}

// A result that could not be written is a failure, whatever the command has found.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"lint", "-q", "-"}} {
		_, stderr, code := flunq(t, func(s *cli.Streams) {
			s.In, s.Out = strings.NewReader(waitsForever), fullDisk{}
		}, args...)
		if want := "flunq: write the output: no space left\n"; stderr != want || code != 1 {
			t.Errorf("%s: got %q, code %d, want %q, code 1", args, stderr, code, want)
		}
	}
}

// waitsForever is a document about which lint has something to say.
const waitsForever = "document: {dsl: 1.0.3, namespace: a, name: b, version: 1.0.0}\ndo: [{hear: {listen: {to: {one: {with: {type: paid}}}}}}]\n"

type fullDisk struct{ io.Writer }

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }
