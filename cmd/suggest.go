package cmd

import (
	"fmt"
	"strings"
)

// didYouMean is the tail of an error about an unknown word, or nothing where
// no candidate comes close.
func didYouMean(word string, candidates []string, prefix string) string {
	best, distance := "", max(2, len(word)/3)+1
	for _, candidate := range candidates {
		d := editDistance(strings.ToLower(word), candidate)
		if len(word) > 1 && strings.HasPrefix(candidate, word) {
			d = 1
		}
		if d < distance && d < len(candidate) {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
