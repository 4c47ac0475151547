package wire

import "time"

// List is a reply of a script. Its methods return zero for missing or mistyped elements.
type List []any

func (l List) at(i int) any {
	if i < len(l) {
		return l[i]
	}
	return nil
}

// Text returns the string at an index.
func (l List) Text(i int) string { text, _ := l.at(i).(string); return text }

// Number returns the integer at an index.
func (l List) Number(i int) int64 { n, _ := l.at(i).(int64); return n }

// List returns the list at an index.
func (l List) List(i int) List { inner, _ := l.at(i).([]any); return inner }

// Milliseconds returns the number at an index as a duration in milliseconds.
func (l List) Milliseconds(i int) time.Duration {
	return time.Duration(l.Number(i)) * time.Millisecond
}

// Texts returns the strings of the list.
func (l List) Texts() []string {
	out := make([]string, len(l))
	for i := range l {
		out[i] = l.Text(i)
	}
	return out
}

// Each calls f with each of the lists in the list.
func (l List) Each(f func(inner List)) {
	for i := range l {
		f(l.List(i))
	}
}

// Time parses a time as the store writes it; zero if there is none.
func Time(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text)
	return t
}

// Args converts strings to arguments of a command.
func Args(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}
