package tui

import (
	"slices"
	"unicode/utf8"
)

// field is a text input of one line.
type field struct {
	runes []rune
	at    int
}

func (f *field) text() string { return string(f.runes) }

func (f *field) set(text string) {
	f.runes = []rune(text)
	f.at = len(f.runes)
}

// key handles a key; other keys do nothing.
func (f *field) key(k string) {
	switch k {
	case "left", "ctrl+b":
		f.at = max(0, f.at-1)
	case "right", "ctrl+f":
		f.at = min(len(f.runes), f.at+1)
	case "home", "ctrl+a":
		f.at = 0
	case "end", "ctrl+e":
		f.at = len(f.runes)
	case "backspace", "ctrl+h":
		f.cut(f.at-1, f.at)
	case "delete", "ctrl+d":
		f.cut(f.at, f.at+1)
	case "ctrl+u":
		f.set("")
	case "ctrl+k":
		f.cut(f.at, len(f.runes))
	case "ctrl+w", "alt+backspace":
		f.cut(f.word(), f.at)
	default:
		f.insert(k)
	}
}

// insert inserts a character.
func (f *field) insert(k string) {
	r, size := utf8.DecodeRuneInString(k)
	if size == 0 || size != len(k) || r < ' ' || r == 0x7f {
		return
	}
	f.runes = slices.Insert(f.runes, f.at, r)
	f.at++
}

func (f *field) cut(from, to int) {
	from, to = max(0, from), min(len(f.runes), to)
	if from < to {
		f.runes = slices.Delete(f.runes, from, to)
		f.at = from
	}
}

// word returns the start of the word before the cursor.
func (f *field) word() int {
	at := f.at
	for at > 0 && f.runes[at-1] == ' ' {
		at--
	}
	for at > 0 && f.runes[at-1] != ' ' {
		at--
	}
	return at
}

// draw draws the visible part of the text, and the cursor.
func (f *field) draw(a area, x, y int) {
	room, from := a.w-x, 0
	for from < f.at && width(string(f.runes[from:f.at])) >= room {
		from++
	}
	end := a.put(x, y, plainInk, string(f.runes[from:]))
	at := x + width(string(f.runes[from:f.at]))
	under := " "
	if f.at < len(f.runes) {
		under = clip(string(f.runes[f.at:f.at+1]), max(1, a.w-at), "")
	}
	a.put(at, y, selected, under)
	for ; end < a.w; end++ {
		if end != at {
			a.put(end, y, plainInk, " ")
		}
	}
}
