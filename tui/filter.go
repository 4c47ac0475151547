package tui

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/history"
)

// Filter selects rows: all Words must occur in a row, and for "name:text", the text must occur in
// the field of that name.
type Filter struct {
	Words   []string
	Fields  map[string]string // by the names that Row.named knows
	Problem string            // explains a part of the filter that has no effect; "" if there is none
}

// ParseFilter parses a filter for a table. It ignores case. A name is the title of a column, or its
// title in another table. A word with a colon whose name is not such a column is searched
// literally, and Problem explains that.
func ParseFilter(table Table, text string) Filter {
	f := Filter{Fields: map[string]string{}}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		name, value, ok := strings.Cut(word, ":")
		field := ""
		if ok {
			field = table.field(name)
		}
		switch {
		case field == "":
			f.Words = append(f.Words, word)
			if ok && f.Problem == "" {
				f.Problem = table.notFiltered(name)
			}
		case value != "":
			f.Fields[field] = value
		}
	}
	if value := f.Fields["status"]; f.Problem == "" && value != "" && len(StatesWith(value)) == 0 {
		f.Problem = "no status has " + value + " in its name"
	}
	return f
}

// field returns the field that a name in a filter means; "" if there is none.
func (t Table) field(name string) string {
	for _, c := range tables[t].columns {
		if c.field != "" && (c.field == name || strings.ToLower(c.title) == name) {
			return c.field
		}
	}
	return ""
}

// filterExample returns an example of a filter for the table.
func (t Table) filterExample() string {
	columns := tables[t].columns
	at := slices.IndexFunc(columns, func(c column) bool { return c.field != "" })
	return strings.ToLower(columns[at].title) + ":text"
}

// notFiltered explains why a name in a filter has no effect; "" if it was probably not meant as a
// name, such as the beginning of an address.
func (t Table) notFiltered(name string) string {
	var can []string
	problem := "no column is named " + name
	for _, c := range tables[t].columns {
		title := strings.ToLower(c.title)
		switch {
		case c.field != "":
			can = append(can, title)
		case slices.Contains(strings.Split(title, " / "), name):
			problem = "the column " + c.title + " cannot be filtered"
		}
	}
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" || name == "http" || name == "https" {
		return ""
	}
	return problem + "; those that can: " + strings.Join(can, ", ")
}

// StatesWith returns the states of rows whose names contain text.
func StatesWith(text string) (out []State) {
	all := []State{Pending, Running, Waiting, Suspended, Completed, Faulted, Cancelled, Overdue, Broken, Dead}
	for _, state := range all {
		if strings.Contains(string(state), text) {
			out = append(out, state)
		}
	}
	return out
}

// Empty reports whether the filter selects all rows.
func (f Filter) Empty() bool { return len(f.Words) == 0 && len(f.Fields) == 0 }

// Match reports whether the filter selects a row.
func (f Filter) Match(r Row) bool {
	for name, text := range f.Fields {
		if !contains(r.named(name), text) {
			return false
		}
	}
	return containsAll(f.Words, r.ID, string(r.State), r.Kind, r.Workflow, r.Execution, history.Task(r.Task), r.Note)
}

// containsAll reports whether each word occurs in one of the texts, ignoring the case of the texts. The
// words are in lower case.
func containsAll(words []string, texts ...string) bool {
	missing := func(word string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return contains(text, word) })
	}
	return !slices.ContainsFunc(words, missing)
}

// contains reports whether text contains part, ignoring the case of text. part is in lower case.
func contains(text, part string) bool {
	return strings.Contains(text, part) || strings.Contains(strings.ToLower(text), part)
}

// named returns the field of a name in a filter.
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
		return history.Task(r.Task)
	default:
		return r.Note
	}
}
