package cmd

import (
	"fmt"
	"strings"

	"flunq.io/flunq/engine/spelling"
)

// didYouMean returns a suggestion to append to an error about an unknown word, or "" if no
// candidate is similar. A prefix of a candidate is similar to it.
func didYouMean(word string, candidates []string, prefix string) string {
	best := spelling.Word(word, candidates)
	for _, candidate := range candidates {
		if len(word) > 1 && strings.HasPrefix(candidate, word) {
			best = candidate
			break
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}
