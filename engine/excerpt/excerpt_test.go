package excerpt_test

import (
	"testing"
	"unicode/utf8"

	"flunq.io/flunq/engine/excerpt"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"seven", 5, "seven"}, {"seven", 4, "seve…"}, {"", 0, ""}, {"a", 0, "…"}, {"größe", 3, "gr…"}, {"größe", 4, "grö…"}, {"日本", 2, "…"},
	} {
		if got := excerpt.Of(tt.text, tt.limit); got != tt.want || !utf8.ValidString(got) {
			t.Errorf("Of(%q, %d) is %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}

func TestEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\n\ttext": "plain\n\ttext", "\x1b[31mred": `\u001b[31mred`, "a\u202eb": `a\u202eb`, "größe": "größe", "a\xffb": "a\ufffdb",
	} {
		if got := excerpt.Escaped(text); got != want {
			t.Errorf("Escaped(%q) is %q, want %q", text, got, want)
		}
	}
}
