package editor_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"flunq.io/flunq/cmd/editor"
	"flunq.io/flunq/engine/dsl"
)

// allYAML returns every YAML file of the project and, if available, of the specification.
func allYAML(tb testing.TB) map[string][]byte {
	tb.Helper()
	all := files(tb, "../../workflows/*.yaml", "schema.yaml")
	maps.Copy(all, officialDocuments(tb))
	return all
}

// format formats a source, and checks that the result means the same and that formatting it again
// changes nothing.
func format(t *testing.T, name string, text []byte) []byte {
	t.Helper()
	out, err := editor.Format(name, text)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, text)
		return nil
	}
	before, err := dsl.ParseData(name, text)
	if err != nil {
		t.Fatal(err)
	}
	after, err := dsl.ParseData(name, out)
	if err != nil || !same(t, before, after) {
		t.Errorf("%s means something else: %v\n%s", name, err, out)
	}
	again, err := editor.Format(name, out)
	if err != nil || !bytes.Equal(out, again) {
		t.Errorf("%s: formatted twice: %v\n%s\nonce\n%s", name, err, again, out)
	}
	return out
}

func same(t *testing.T, a, b any) bool {
	t.Helper()
	return reflect.DeepEqual(plain(t, a), plain(t, b))
}

// Our own files are formatted.
func TestFormatOwnFiles(t *testing.T) {
	t.Parallel()
	for file, text := range files(t, "../../workflows/*.yaml", "schema.yaml") {
		if out := format(t, file, text); !bytes.Equal(out, text) {
			t.Errorf("%s is formatted as\n%s", file, out)
		}
	}
}

// A byte order mark is removed.
func TestFormatByteOrderMark(t *testing.T) {
	t.Parallel()
	if out := format(t, "a.yaml", []byte("\ufeffa: 1\n")); string(out) != "a: 1\n" {
		t.Errorf("formatted as %q", out)
	}
}

// The examples are formatted in the same way, however they are indented and spaced.
func TestFormatUndoesChanges(t *testing.T) {
	t.Parallel()
	r, tried := rand.New(rand.NewPCG(1, 2)), 0
	for file, text := range allYAML(t) {
		want := format(t, file, text)
		changed := disorder(r, string(want))
		before, _ := dsl.ParseData(file, want)
		if after, err := dsl.ParseData(file, []byte(changed)); err != nil || !same(t, before, after) {
			continue // a literal, whose spaces matter
		}
		tried++
		if got := format(t, file, []byte(changed)); !bytes.Equal(got, want) && got != nil {
			t.Errorf("%s\n%s\nis formatted as\n%s\nwant\n%s", file, changed, got, want)
		}
	}
	t.Logf("%d texts", tried)
	if tried < 100 {
		t.Errorf("only %d texts", tried)
	}
}

// disorder indents all lines by a multiple, and adds spaces and blank lines.
func disorder(r *rand.Rand, text string) string {
	factor := 1 + r.IntN(3)
	var out strings.Builder
	for line := range strings.Lines(text) {
		rest := strings.TrimLeft(strings.TrimSuffix(line, "\n"), " ")
		out.WriteString(strings.Repeat(" ", (len(strings.TrimSuffix(line, "\n"))-len(rest))*factor))
		for strings.HasPrefix(rest, "- ") {
			out.WriteString("-" + strings.Repeat(" ", 2*factor-1))
			rest = rest[2:]
		}
		out.WriteString(rest + strings.Repeat(" ", r.IntN(2)) + "\n")
		if rest == "" && r.IntN(2) == 0 {
			out.WriteString("\n")
		}
	}
	return out.String() + strings.Repeat("\n", r.IntN(2))
}

// Any input is either refused or formatted, idempotently and without a change of meaning.
func FuzzFormat(f *testing.F) {
	for _, text := range files(f, "../../workflows/*.yaml") {
		f.Add(text)
	}
	for _, text := range []string{
		"a:\n- b\n-   c: d\n    e: f\n", "- - a\n  - b\n-\n  c: 1\n", "a: >+\n   x\n\n\nb: 'c\n   d'\n", "{a: [b,\n c: d], e}\n",
		"a: &x {b: 1} # c\nd: *x\n# e\n", "? a\n: b\n", "a: |2\n    b\n   c\n", "\"a b\" : c\n  d\n", "a: !!str\n  b\n", "#\n\n\n- a:\n# b\n    c:\n      d\n   # e\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := editor.Format("a.yaml", text)
		if err != nil {
			return
		}
		twice, err := editor.Format("a.yaml", once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q is formatted as\n%q, and then as\n%q: %v", text, once, twice, err)
		}
	})
}
