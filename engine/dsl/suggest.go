package dsl

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// meant are words that people bring along from other languages, with the keys
// that say it here. The first that is allowed where the word stands is suggested.
func meant(word string) []string {
	switch strings.ToLower(word) {
	case "url", "uri", "href", "address":
		return []string{"endpoint", "uri"}
	case "endpoint":
		return []string{"uri", "document"}
	case "next", "goto", "transition", "nextstate", "next_state":
		return []string{"then"}
	case "foreach", "each", "loop", "iterate":
		return []string{"for", "each", "foreach"}
	case "condition", "when", "if", "unless":
		return []string{"if", "when"}
	case "delay", "sleep", "pause":
		return []string{"wait", "delay"}
	case "retries", "retrypolicy", "retry_policy":
		return []string{"retry"}
	case "task", "tasks", "steps", "states", "actions", "flow":
		return []string{"do"}
	case "parallel", "branches", "concurrent":
		return []string{"fork", "branches"}
	case "assign", "var", "vars", "let":
		return []string{"set"}
	case "id":
		return []string{"name", "operationId"}
	case "parameters", "args", "arguments", "params":
		return []string{"with", "parameters", "arguments"}
	case "except", "rescue", "onerror", "onerrors":
		return []string{"catch"}
	case "index":
		return []string{"at"}
	case "item":
		return []string{"each", "item"}
	case "operation":
		return []string{"operationId"}
	case "details":
		return []string{"detail"}
	case "data", "content", "payload":
		return []string{"body", "payload", "data"}
	case "secret":
		return []string{"use", "secrets"}
	case "throw", "error":
		return []string{"raise"}
	default:
		return nil
	}
}

// maxCandidates is how many words are compared to find the one that was meant.
const maxCandidates = 1000

// closest is the word of all that a writer meant, or "".
func closest(word string, all []string) string {
	for _, m := range meant(word) {
		if slices.Contains(all, m) {
			return m
		}
	}
	best, found := min(3, 1+utf8.RuneCountInString(word)/4), ""
	for _, candidate := range all[:min(len(all), maxCandidates)] {
		if strings.EqualFold(word, candidate) {
			return candidate
		}
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d <= best && (found == "" || d < best) {
			best, found = d, candidate
		}
	}
	return found
}

// didYouMean is a suggestion out of all, or what is allowed.
func didYouMean(word string, all []string) string {
	if found := closest(word, all); found != "" {
		return "did you mean " + quote(found) + "?"
	}
	switch {
	case len(all) == 0:
		return ""
	case len(all) > 20:
		return "known are " + strings.Join(quoted(all[:20]), ", ") + " and more"
	default:
		return "known here: " + strings.Join(quoted(all), ", ")
	}
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = short(w)
	}
	return out
}

// distance is how many letters have to be put in, left out, replaced or
// swapped with their neighbour. Long words are far from everything.
func distance(a, b string) int {
	const far = 100
	s, t := []rune(a), []rune(b)
	if len(s) > 64 || len(t) > 64 || len(s)-len(t) > 4 || len(t)-len(s) > 4 {
		return far
	}
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
