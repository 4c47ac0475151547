package canvas_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"flunq.io/flunq/tui/canvas"
)

// colourCodes are the codes of colours.
var colourCodes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// shown returns text as it appears on a canvas.
func shown(text string) string {
	c := canvas.New(60, 1)
	c.All().Put(0, 0, canvas.Normal, text)
	return c.Text(canvas.Theme{})
}

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                      "plain",
		"a\tb\nc":                    "a b c",
		"red \x1b[31m":               `red \u001b[31m`,
		"\u202egnp.exe":              `\u202egnp.exe`,
		"注文":                         "注文",
		"e\u0301\u0301\u0301\u0301!": "e\u0301\u0301\u0301!",
		"\u0301alone":                `\u0301alone`,
		"👩\u200d👧":                   `👩\u200d👧`,
		"flag \U0001f1e9":            `flag \U0001f1e9`,
		"heart \u2764\ufe0f":         "heart \u2764" + `\ufe0f`,
		"bad \xff\xfe":               "bad \ufffd\ufffd",
		"\x9b31m":                    "\ufffd31m",
		"\u009b31m":                  `\u009b31m`,
	} {
		if got := shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		if got := canvas.Width(text); got != canvas.Width(want) {
			t.Errorf("%q takes %d cells, want %d", text, got, canvas.Width(want))
		}
	}
}

// On an ASCII terminal only ASCII is drawn, at the same positions.
func TestASCII(t *testing.T) {
	t.Parallel()
	c := canvas.New(20, 1)
	c.All().Put(0, 0, canvas.Normal, "注 é e\u0301 ↑ … end")
	if got, want := c.Text(canvas.Theme{ASCII: true}), "?? ? e ^ ~ end"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Overwriting text of any width does not change the width of a row.
func FuzzCanvas(f *testing.F) {
	f.Add("注文-2", "\x1b[2J", 3)
	f.Add("ab注文cd", "注", 1)
	f.Add("e\u0301\u0301", "👩\u200d👧", 0)
	f.Fuzz(func(t *testing.T, below, above string, at int) {
		const w = 12
		for _, ascii := range []bool{false, true} {
			c := canvas.New(w, 2)
			a := c.All()
			a.Put(0, 0, canvas.Normal, below)
			a.Put(at%w, 0, canvas.Strong, above)
			a.Put(0, 1, canvas.Normal, canvas.Clip(below, w, "…"))
			for line := range strings.SplitSeq(c.Text(canvas.Theme{ASCII: ascii}), "\n") {
				bare := colourCodes.ReplaceAllString(line, "")
				if n := canvas.Width(bare); n > w || !utf8.ValidString(bare) {
					t.Errorf("%q is %d cells wide", bare, n)
				}
			}
		}
		if n := canvas.Width(canvas.Clip(above, 5, "…")); n > 5 {
			t.Errorf("%q is clipped to %d cells", above, n)
		}
	})
}
