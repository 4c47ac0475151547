package spelling_test

import (
	"testing"

	"flunq.io/flunq/engine/spelling"
)

func TestWord(t *testing.T) {
	t.Parallel()
	keys := []string{"then", "with", "endpoint", "try", "Output"}
	for word, want := range map[string]string{
		"thn": "then", "hten": "then", "thenn": "then", "endpiont": "endpoint", "output": "Output",
		"zzz": "", "": "", "tyr": "try", "ab": "", "wiht": "with", "completely": "",
	} {
		if got := spelling.Word(word, keys); got != want {
			t.Errorf("Word(%q) = %q, want %q", word, got, want)
		}
	}
}
