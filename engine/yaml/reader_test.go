package yaml_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/yaml"
)

// All mistakes are reported in line order, each with its position.
func TestMistakes(t *testing.T) {
	t.Parallel()
	r := yaml.NewReader("f.yaml", []byte("b: 1\nlen: x\nnames: {}\n"))
	var length string
	root := r.Root()
	r.Object(root, "the file", yaml.Fields{
		"length": func(n *yaml3.Node) { length = r.Text(n, "length") },
		"names":  r.Each("names", func(*yaml3.Node) {}),
	}, nil)
	r.Errorf(root, "too short")
	err := r.Err()
	want := `f.yaml:1:1: unknown key "b" in the file, want one of length, names
f.yaml:1:1: too short
f.yaml:2:1: unknown key "len" in the file, want one of length, names
f.yaml:3:8: names is a map, want a list`
	if err == nil || err.Error() != want || length != "" {
		t.Errorf("Err() = %v\nwant %s", err, want)
	}
}

// Positions are those of editors, which do not end a line at the Unicode separators.
func TestLineSeparators(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ source, want string }{
		{"a: 'é\u2028b\u0085c'\nb: ['\u2029', x]\n", "f.yaml:2:4: here\nf.yaml:2:10: here"},
		{"{\"a\": \"\u2028\",\n\t\"b\": [1, 2]}\n", "f.yaml:2:7: here\nf.yaml:2:11: here"},
		{"# é\u2028 b\na: 1\n", "f.yaml:1:4: this invisible character ends the line, like a line break"},
	} {
		r := yaml.NewReader("f.yaml", []byte(tt.source))
		if root := r.Root(); root != nil {
			last := root.Content[len(root.Content)-1]
			r.Errorf(last, "here")
			r.Errorf(last.Content[1], "here")
		}
		if err := r.Err(); err == nil || err.Error() != tt.want {
			t.Errorf("%q: %v\nwant %s", tt.source, err, tt.want)
		}
	}
}

// YAML 1.2 is not mistaken for a value.
func TestDirective(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"%YAML 1.2\n---\na: 1\n": "f.yaml:1:1: a %YAML directive is not supported",
		"%YAML 1.1\n---\na: [\n": "f.yaml:3:4: this [ is never closed",
	} {
		r := yaml.NewReader("f.yaml", []byte(source))
		r.Root()
		if err := r.Err(); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", source, err, want)
		}
	}
}

// Aliases that multiply do not exhaust the memory.
func TestTooManyValues(t *testing.T) {
	t.Parallel()
	source := "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
	for c := 'b'; c < 'i'; c++ {
		before := "*" + string(c-1)
		source += string(c) + ": &" + string(c) + " [" + before
		for range 9 {
			source += "," + before
		}
		source += "]\n"
	}
	r := yaml.NewReader("f.yaml", []byte(source))
	r.Data(r.Root())
	if r.Err() == nil {
		t.Error("10^8 values were read")
	}
}

// The limit of nesting counts lists and maps, not the values in them.
func TestMaxDepth(t *testing.T) {
	t.Parallel()
	for _, within := range []string{"", "1"} {
		for more, ok := range []bool{true, false} {
			n := yaml.MaxDepth + more
			r := yaml.NewReader("f.yaml", []byte(strings.Repeat("[", n)+within+strings.Repeat("]", n)))
			r.Data(r.Root())
			if (r.Err() == nil) != ok {
				t.Errorf("%d levels around %q: %v", n, within, r.Err())
			}
		}
	}
	// This is more than the parser reads.
	r := yaml.NewReader("f.yaml", bytes.Repeat([]byte("["), 20_000))
	if r.Root(); r.Err() == nil || r.Err().Error() != "f.yaml:1:1: nested deeper than 100 levels" {
		t.Error(r.Err())
	}
}

// A mistake is shown with its line, however lines end.
func TestLineEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n", "\r\n", "\r"} {
		source := strings.ReplaceAll("a: 1\n\nb: {\nc: 2\n", "\n", end)
		c := yaml.NewCollector("f.yaml")
		c.Mistake(yaml.Pos{Line: 4, Column: 1}, "", "wrong")
		_, err := c.Result([]byte(source))
		mistakes, ok := errors.AsType[*yaml.Mistakes](err)
		if !ok {
			t.Fatal(err)
		}
		var out strings.Builder
		mistakes.Render(&out, false)
		if want := "f.yaml:4:1: wrong\n  4 | c: 2\n    | ^\n"; out.String() != want {
			t.Errorf("with %q:\n%s", end, out.String())
		}
	}
}

// A list on the line of a tag, outside of any key, is a mistake.
func TestListAfterTag(t *testing.T) {
	t.Parallel()
	r := yaml.NewReader("f.yaml", []byte("!x - a\n- b: c: d\n"))
	r.Root()
	if r.Err() == nil {
		t.Error("no mistake")
	}
}

// A JSON document has the same strings as for a JSON decoder.
func TestEscapesOfJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"https:\/\/a.example\/b"`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00x\ud800\u0041"`, `"\\/ \\ud800 \\\/ \\\ud800"`, `"\u00e9\b\f\n\r\t\"\\"`,
		`{"a\/b": ["\ud83d\ude00", "\/"]}`, "{\"a\": \"\\/\",\n\"b\": \"x\\/y\"}",
	} {
		want, err := canonical.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c := yaml.NewCollector("a.json")
		root := yaml.Read(c, []byte(text))
		if _, err := c.Result([]byte(text)); err != nil || !canonical.Equal(root.Data, want) {
			t.Errorf("%s: got %v, %v, want %v", text, root, err, want)
		}
	}
}

// Reading takes time proportional to the size also if JSON has many escapes on one line.
func TestManyEscapes(t *testing.T) {
	t.Parallel()
	text := []byte("[" + strings.Repeat(`"\ud83d\ude00",`, 40_000) + "1]")
	c := yaml.NewCollector("a.json")
	if root := yaml.Read(c, text); len(root.Items) != 40_001 {
		t.Error(c.Result(text))
	}
}
