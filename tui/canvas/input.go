package canvas

import (
	"slices"
	"unicode/utf8"
)

// Input is a text input of one line.
type Input struct {
	runes []rune
	At    int // characters before the cursor
}

// Text returns what was typed.
func (f *Input) Text() string { return string(f.runes) }

// Set replaces the text, and moves the cursor to its end.
func (f *Input) Set(text string) {
	f.runes = []rune(text)
	f.At = len(f.runes)
}

// Key handles a key; other keys do nothing.
func (f *Input) Key(k string) {
	switch k {
	case "left", "ctrl+b":
		f.At = max(0, f.At-1)
	case "right", "ctrl+f":
		f.At = min(len(f.runes), f.At+1)
	case "home", "ctrl+a":
		f.At = 0
	case "end", "ctrl+e":
		f.At = len(f.runes)
	case "backspace", "ctrl+h":
		f.cut(f.At-1, f.At)
	case "delete", "ctrl+d":
		f.cut(f.At, f.At+1)
	case "ctrl+u":
		f.Set("")
	case "ctrl+k":
		f.cut(f.At, len(f.runes))
	case "ctrl+w", "alt+backspace":
		f.cut(f.word(), f.At)
	default:
		f.insert(k)
	}
}

// insert inserts a character.
func (f *Input) insert(k string) {
	r, size := utf8.DecodeRuneInString(k)
	if size == 0 || size != len(k) || r < ' ' || r == 0x7f {
		return
	}
	f.runes = slices.Insert(f.runes, f.At, r)
	f.At++
}

func (f *Input) cut(from, to int) {
	from, to = max(0, from), min(len(f.runes), to)
	if from < to {
		f.runes = slices.Delete(f.runes, from, to)
		f.At = from
	}
}

// word returns the start of the word before the cursor.
func (f *Input) word() int {
	at := f.At
	for at > 0 && f.runes[at-1] == ' ' {
		at--
	}
	for at > 0 && f.runes[at-1] != ' ' {
		at--
	}
	return at
}

// Draw draws the visible part of the text, and the cursor.
func (f *Input) Draw(a Area, x, y int) {
	width, from := a.W-x, 0
	for from < f.At && Width(string(f.runes[from:f.At])) >= width {
		from++
	}
	end := a.Put(x, y, Normal, string(f.runes[from:]))
	at := x + Width(string(f.runes[from:f.At]))
	under := " "
	if f.At < len(f.runes) {
		under = Clip(string(f.runes[f.At:f.At+1]), max(1, a.W-at), "")
	}
	a.Put(at, y, Selected, under)
	for ; end < a.W; end++ {
		if end != at {
			a.Put(end, y, Normal, " ")
		}
	}
}
