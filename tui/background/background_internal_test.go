package background

import (
	"os"
	"testing"
)

// The reply about the background is never taken for typed text, whatever input surrounds it.
func TestWithoutAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ read, text, partial, colour string }{
		"keys":            {"jk", "jk", "", ""},
		"escape":          {"\x1b", "\x1b", "", ""},
		"alt and bracket": {"\x1b]", "\x1b]", "", ""},
		"bell":            {"\x1b]11;rgb:ffff/ffff/ffff\a", "", "", "rgb:ffff/ffff/ffff"},
		"among keys":      {"j\x1b]11;rgb:00/00/00\x1b\\k", "jk", "", "rgb:00/00/00"},
		"begun":           {"j\x1b]11;rgb:00", "j", "\x1b]11;rgb:00", ""},
		"hardly begun":    {"j\x1b]1", "j", "\x1b]1", ""},
		"half an end":     {"\x1b]11;rgb:0/0/0\x1b", "", "\x1b]11;rgb:0/0/0\x1b", ""},
	} {
		text, held, colour := withoutReply([]byte(c.read))
		if string(text) != c.text || string(held) != c.partial || colour != c.colour {
			t.Errorf("%s: %q, %q, %q", name, text, held, colour)
		}
	}
}

func TestIsLight(t *testing.T) {
	t.Parallel()
	for colour, want := range map[string]bool{
		"rgb:ffff/ffff/ffff": true, "rgb:fd/f6/e3": true, "rgb:f/f/f": true,
		"rgb:0000/0000/0000": false, "rgb:1e1e/1e1e/2e2e": false, "rgb:00/2b/36": false,
	} {
		if got, ok := isLight(colour); !ok || got != want {
			t.Errorf("%s: %v, %v", colour, got, ok)
		}
	}
	for _, colour := range []string{"", "red", "rgb:", "rgb:1/2", "rgb:x/y/z", "rgb:12345/0/0", "rgb:-1/0/0", "rgb://"} {
		if got, ok := isLight(colour); ok {
			t.Errorf("%q: %v", colour, got)
		}
	}
}

// Only a terminal replies: the null device, where services and cron have their input, does not.
func TestNewReader(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if _, ok := NewReader(null, nil); ok {
		t.Error("the null device is a terminal")
	}
}
