package dsl_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
)

// For any input, Parse returns a definition, or *yaml.Mistakes that can be rendered.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../../workflows/*.yaml", "testdata/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal("no seeds in ", pattern, err)
		}
		for _, file := range files {
			src, _, _ := strings.Cut(string(load(f, file)), "-- want --")
			f.Add([]byte(src[max(0, strings.Index(src, "document")):]))
		}
	}
	f.Add([]byte("}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		def, warnings, err := dsl.Parse("f.yaml", src)
		yaml.RenderWarnings(io.Discard, src, warnings, true)
		if err == nil {
			if def == nil || len(def.Do) > 0 && def.Do[0] == nil {
				t.Errorf("Parse(%q) gives %+v without an error", src, def)
			}
			return
		}
		var mistakes *yaml.Mistakes
		if !errors.As(err, &mistakes) {
			t.Fatalf("Parse(%q) = %v, want *yaml.Mistakes", src, err)
		}
		var shown strings.Builder
		mistakes.Render(&shown, false)
		for _, r := range shown.String() {
			if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0) {
				t.Fatalf("rendering %q lets %U through", src, r)
			}
		}
	})
}

// Hostile documents are rejected quickly.
func TestHostileDocumentsAreRejectedQuickly(t *testing.T) {
	t.Parallel()
	big := func(s string) string { return strings.Repeat(s, yaml.MaxSize/len(s)) }
	numbered := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < yaml.MaxSize-100; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	laughs := "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n" +
		"c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n" +
		"e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n"
	some := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	header := "document: {dsl: '1.0.3', namespace: a, name: b, version: '1.0.0'}\ndo:\n"
	for name, src := range map[string]string{
		"too large":         big("a") + "aa",
		"laughs":            laughs,
		"self":              "a: &a [*a, *a]\n",
		"self in a map":     "a: &a {b: *a, <<: *a}\n",
		"aliases":           "a: &a 1\nb: [" + strings.Repeat("*a, ", 5000) + "]\n",
		"many keys":         numbered("k%d: v\n"),
		"equal keys":        big("k: v\n"),
		"flow depth":        strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"flow depth open":   big("["),
		"block depth":       strings.Repeat("- ", 9000),
		"deep do":           header + strings.Repeat("- a: {do: [", 5000),
		"tasks":             header + numbered("- t%d: {set: {a: 1}}\n"),
		"bad tasks":         header + numbered("- t%d: {sett: {a: 1}, unheard: x}\n"),
		"equal tasks":       header + big("- t: {then: x}\n"),
		"jumps":             header + numbered("- t%d: {set: {a: 1}, then: nowhere}\n"),
		"long expression":   header + "- b: {}\n- a: {set: '${ " + strings.Repeat(".a|", 300000) + ".a }'}\n",
		"deep expression":   header + "- a: {set: '${ " + strings.Repeat("(", 300000) + " }'}\n",
		"interpolations":    header + "- a: {set: '" + strings.Repeat("${ .a", 150000) + "'}\n",
		"some bad tasks":    header + some(8000, "- t%d: {sett: {a: 1}, unheard: x}\n"),
		"some jumps":        header + some(9000, "- t%d: {set: {a: 1}, then: nowhere}\n"),
		"some keys":         header + "- a: {set: 5, " + some(9000, "kk%d: 1, ") + "}\n",
		"some expressions":  header + "- a: {sett: 5}\n" + some(12000, "- t%d: {set: '${ .a + 1 }'}\n"),
		"bad on one line":   header + "- a: {set: [" + some(40000, "'${ .a + %d | }',") + "]}\n",
		"variables":         header + "- a: {set: '${ " + some(5000, "$v%d,") + " 1 }'}\n",
		"interpolations 2":  header + "- b: {}\n- a: {set: '" + strings.Repeat("x${ .a }", 100000) + "'}\n",
		"long number":       "a: " + big("9")[:900000],
		"tags":              numbered("%%TAG !a%d! tag:x,2000:\n") + "--- a",
		"tabs":              big("\t"),
		"long line":         "document: {dsl: " + big("x")[:900000] + "}\n",
		"questions":         strings.Repeat("? ", 9000),
		"documents":         big("---\n"),
		"retries":           header + strings.Repeat("- a: {try: [], catch: {retry: r}}\n", 9000),
		"control":           "a\x00b: \x1b[31m",
		"empty":             "",
		"comment":           "# nothing\n",
		"not utf-8":         "a: \xff\n",
		"merge of nothing":  "<<: 5\n",
		"anchor on nothing": "a: *b\n",
		"many quotes":       header + big("- a: \"b\n"),
		"many braces":       header + big("- a: {b: [c\n"),
		"unclosed strings":  header + strings.Repeat("- a: \"b\n  c\n", 9000),
		"bad indentation":   header + strings.Repeat("- a:\n      b: c\n    d: e\n", 9000),
		"many colons":       header + "- a: " + big("b: ")[:900000],
		"open quotes":       header + "- a: " + big("\"")[:900001] + "'\n",
		"many words":        big("word\n"),
		"aliases of none":   header + strings.Repeat("- a: *b\n", 9000),
		"open long line":    header + "- a: {b: " + big("${ . ")[:900000],
		"way back":          header + some(9000, "- t%d: {wait: PT1S, then: t0}\n"),
		"like expressions":  header + "- a: {set: [" + some(40000, "'.a + %d',") + "]}\nx",
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, _, err := dsl.Parse("hostile.yaml", []byte(src))
			took := time.Since(begin)
			var mistakes *yaml.Mistakes
			if !errors.As(err, &mistakes) {
				t.Fatalf("Parse returns the error %v, want *yaml.Mistakes", err)
			}
			if len(mistakes.List) > yaml.MaxMistakes+1 {
				t.Errorf("%d mistakes are reported, want at most %d", len(mistakes.List), yaml.MaxMistakes+1)
			}
			first := mistakes.List[0].String()
			t.Logf("%v: %d mistakes: %.150s", took, len(mistakes.List), first)
			if len(first) > 1000 {
				t.Errorf("the first mistake has %d bytes, want at most 1000", len(first))
			}
			if limit := 2 * time.Minute; took > limit { // about a second on an idle machine
				t.Errorf("Parse took %v, want at most %v", took, limit)
			}
		})
	}
}
