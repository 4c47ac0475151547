// Package spelling suggests the word that a misspelled one probably meant.
package spelling

import (
	"strings"
	"unicode/utf8"
)

// Limits that bound the cost of a lookup.
const (
	maxCandidates = 1000
	maxRunes      = 64
)

// Word returns the candidate closest to word, or "" if none is close. Characters may be
// inserted, deleted, replaced or swapped, more of them in longer words. Case is ignored.
func Word(word string, candidates []string) string {
	found, best := "", Limit(word)+1
	for _, candidate := range candidates[:min(len(candidates), maxCandidates)] {
		if strings.EqualFold(word, candidate) {
			return candidate
		}
		d := distance(strings.ToLower(word), strings.ToLower(candidate))
		if d < best && d < utf8.RuneCountInString(candidate) {
			found, best = candidate, d
		}
	}
	return found
}

// Limit returns the number of edits up to which a candidate is close to a word.
func Limit(word string) int { return min(3, 1+utf8.RuneCountInString(word)/4) }

// distance returns the number of insertions, deletions, replacements and swaps of
// neighbours between two words.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	if max(len(s), len(t)) > maxRunes {
		return maxRunes
	}
	before, last := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row := make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			replace := last[j-1]
			if s[i-1] != t[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}
