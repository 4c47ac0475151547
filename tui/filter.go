package tui

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/history"
)

// Filter says which rows are meant, as somebody has typed it: words, all of which
// stand in a row, and "name:text", where text stands in what is called so.
type Filter struct {
	Words   []string
	Fields  map[string]string // by the names of filterNames
	Problem string            // what does not mean what it seems to, in a sentence; "" if all does
}

// ParseFilter reads what was typed to filter a table. Case does not matter. A name is the
// title of a column, or what the column is called in other tables. A word with a colon
// whose name is no such column is looked for as it stands, and Problem says so.
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

// filterNames are what a filter can look at in a row.
func filterNames() []string {
	return []string{"id", "status", "kind", "workflow", "execution", "task", "note"}
}

// field is what a name in a filter of a table looks at; "" if that is nothing.
func (t Table) field(name string) string {
	for _, c := range columnsOf(t) {
		if c.field != "" && (c.field == name || strings.ToLower(c.title) == name) {
			return c.field
		}
	}
	return ""
}

// filterExample is how a filter looks in a column of the table.
func (t Table) filterExample() string {
	columns := columnsOf(t)
	at := slices.IndexFunc(columns, func(c column) bool { return c.field != "" })
	return strings.ToLower(columns[at].title) + ":text"
}

// notFiltered says why a name in a filter means nothing; "" for what was hardly meant as
// a name, such as the beginning of an address.
func (t Table) notFiltered(name string) string {
	var can []string
	problem := "no column is called " + name
	for _, c := range columnsOf(t) {
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

// StatesWith are the states that a text stands in the names of.
func StatesWith(text string) (out []State) {
	all := []State{Pending, Running, Waiting, Suspended, Completed, Faulted, Cancelled, Overdue, Broken, Dead}
	for _, state := range all {
		if strings.Contains(string(state), text) {
			out = append(out, state)
		}
	}
	return out
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
		return history.Task(r.Task)
	default:
		return r.Note
	}
}
