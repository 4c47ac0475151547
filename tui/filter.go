package tui

import (
	"slices"
	"strings"
)

// Filter says which rows are meant, as somebody has typed it: words, all of which
// stand in a row, and "name:text", where text stands in what is called so.
type Filter struct {
	Words  []string
	Fields map[string]string
}

// ParseFilter reads what was typed. Case does not matter.
func ParseFilter(text string) Filter {
	f := Filter{Fields: map[string]string{}}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		name, value, ok := strings.Cut(word, ":")
		if ok && slices.Contains(filterNames(), name) {
			if value != "" {
				f.Fields[name] = value
			}
			continue
		}
		f.Words = append(f.Words, word)
	}
	return f
}

// filterNames are the names that mean a column.
func filterNames() []string {
	return []string{"id", "status", "kind", "workflow", "execution", "task", "note"}
}

// Empty reports whether all rows are meant.
func (f Filter) Empty() bool { return len(f.Words) == 0 && len(f.Fields) == 0 }

// Match reports whether a row is meant.
func (f Filter) Match(r Row) bool {
	for name, text := range f.Fields {
		if !contains(r.named(name), text) {
			return false
		}
	}
	for _, word := range f.Words {
		found := slices.ContainsFunc(filterNames(), func(name string) bool { return contains(r.named(name), word) })
		if !found {
			return false
		}
	}
	return true
}

// contains compares without regard to case; the part is in lower case.
func contains(text, part string) bool {
	return strings.Contains(text, part) || strings.Contains(strings.ToLower(text), part)
}

func (r Row) named(name string) string {
	switch name {
	case "id":
		return r.ID
	case "status":
		return string(r.State)
	case "kind":
		return r.Kind
	case "workflow":
		return r.Workflow
	case "execution":
		return r.Execution
	case "task":
		return r.Task
	default:
		return r.Note
	}
}
