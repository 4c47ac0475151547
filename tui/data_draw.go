package tui

import (
	"slices"
	"strings"
)

// resize sets the width and the height.
func (v *dataView) resize(room, height int) {
	v.height = max(1, height)
	if room == v.space {
		return
	}
	v.space = room
	if v.lines != nil {
		v.arrange()
	}
}

// draw draws the window.
func (v *dataView) draw(a area, l look, focus bool) {
	v.resize(a.w, a.h)
	v.to(v.cursor)
	for y := range a.h {
		at := v.offset + y
		if at >= len(v.lines) {
			return
		}
		v.drawLine(a.part(0, y, a.w, 1), l, &v.lines[at])
		if at == v.cursor && focus {
			a.fill(y, selected)
		}
	}
}

func (v *dataView) drawLine(a area, l look, line *dataLine) {
	if v.items == nil {
		a.put(0, 0, plainInk, line.part)
		return
	}
	i := &v.items[line.item]
	x := 2 * int(i.depth)
	if most := max(0, a.w-20); x > most {
		x = most
	}
	switch {
	case line.more:
		a.put(x+4, 0, good, line.part)
	case line.end:
		a.put(x+2, 0, faint, closing(i)+comma(i))
	default:
		v.drawItem(a, l, line.item, x)
	}
}

func closing(i *dataItem) string { return string(rune(i.kind + 2)) }

func comma(i *dataItem) string {
	if i.lastOfKind || i.depth == 0 {
		return ""
	}
	return ","
}

func (v *dataView) drawItem(a area, l look, at int32, x int) {
	i := &v.items[at]
	open := v.opened(at)
	if i.holds() || i.kind == '"' && (open || v.long(i)) {
		a.put(x, 0, faint, [2]string{l.pick("▹", "+"), l.pick("▿", "-")}[truth(open)])
	}
	x += 2
	if i.name != "" {
		x = a.put(x, 0, accent, clip(i.name, max(8, a.w/2), l.more()))
		x = a.put(x, 0, faint, ": ")
	}
	text := v.text[i.from:i.to]
	switch i.kind {
	case '{', '[':
		v.drawHolder(a, i, x, open)
	case '"':
		v.drawText(a, l, i, x)
	case 't', 'f', 'n':
		x = a.put(x, 0, calm, text)
		a.put(x, 0, faint, comma(i))
	default:
		x = a.put(x, 0, warn, clip(text, a.w-x, l.more()))
		a.put(x, 0, faint, comma(i))
	}
}

func (*dataView) drawHolder(a area, i *dataItem, x int, open bool) {
	opening := string(rune(i.kind))
	switch {
	case i.count == 0:
		a.put(x, 0, faint, opening+closing(i)+comma(i))
	case open:
		a.put(x, 0, faint, opening)
	default:
		what := "member"
		if i.kind == '[' {
			what = "item"
		}
		a.put(x, 0, faint, opening+" "+some(int(i.count), what)+" "+closing(i)+comma(i))
	}
}

// long reports whether a text needs more than one line.
func (v *dataView) long(i *dataItem) bool {
	text := v.text[i.from:i.to]
	room := v.space - 2*int(i.depth) - width(i.name) - 6
	return len(text) > room && (len(text) > 4*v.space || width(text) > room)
}

func (v *dataView) drawText(a area, l look, i *dataItem, x int) {
	text := v.text[i.from:i.to]
	if !v.long(i) {
		x = a.put(x, 0, good, text)
		a.put(x, 0, faint, comma(i))
		return
	}
	note := " " + count(int64(len(text)-2)) + " bytes"
	room := max(1, a.w-x-width(note)-1)
	// Read no more than can be shown.
	head := strings.ToValidUTF8(text[:min(len(text), 4*room)], "")
	x = a.put(x, 0, good, clip(head, room, l.more()))
	a.put(x, 0, faint, note+comma(i))
}

// move moves the cursor by lines.
func (v *dataView) move(lines int) { v.to(v.cursor + lines) }

// to puts the cursor on a line.
func (v *dataView) to(line int) {
	v.cursor = max(0, min(line, len(v.lines)-1))
	v.offset = max(v.cursor-v.height+1, min(v.offset, v.cursor))
	v.offset = max(0, min(v.offset, len(v.lines)-v.height))
}

func (v *dataView) end() { v.to(len(v.lines) - 1) }

// fold opens or closes the item at the cursor.
func (v *dataView) fold(open bool) {
	if v.items == nil || v.cursor >= len(v.lines) {
		return
	}
	at := v.lines[v.cursor].item
	i := &v.items[at]
	switch now := v.opened(at); {
	case now == open && !open:
		v.outside(at)
		return
	case now == open:
		v.move(1)
		return
	case i.kind == '"' && !v.long(i), i.kind != '"' && !i.holds():
		if !open {
			v.outside(at)
		}
		return
	}
	v.open[at] = open
	v.arrange()
	v.goTo(at)
}

// turnFold toggles the item at the cursor.
func (v *dataView) turnFold() {
	if v.items != nil && v.cursor < len(v.lines) {
		v.fold(!v.opened(v.lines[v.cursor].item))
	}
}

// outside goes to the item that contains another one.
func (v *dataView) outside(at int32) {
	for up := at - 1; up >= 0; up-- {
		if v.items[up].depth < v.items[at].depth {
			v.goTo(up)
			return
		}
	}
}

func (v *dataView) goTo(item int32) {
	for n, line := range v.lines {
		if line.item == item && !line.end && !line.more {
			v.to(n)
			return
		}
	}
}

// foldAll opens everything, or closes everything inside the outermost item.
func (v *dataView) foldAll(how fold) {
	clear(v.open)
	v.usual = 1
	if how == allOpen {
		v.usual = 10_000
	}
	v.arrange()
}

// folds reports whether anything in the value can be folded.
func (v *dataView) folds() bool {
	return slices.ContainsFunc(v.items, func(i dataItem) bool { return i.holds() || i.kind == '"' && v.long(&i) })
}

// value returns the path and the value at the cursor: a string without its quotes, anything else as
// JSON.
func (v *dataView) value() (what, text string) {
	switch {
	case v.cursor >= len(v.lines):
		return "value", ""
	case v.items == nil:
		return "text", v.text
	}
	i := &v.items[v.lines[v.cursor].item]
	text = v.text[i.from:i.to]
	if i.kind == '"' {
		text = unquoted(text)
	}
	if what = v.label(); what == "." {
		return "value", text
	}
	return "value of " + what, text
}

// label returns the path of the cursor within the value.
func (v *dataView) label() string {
	if v.items == nil || v.cursor >= len(v.lines) {
		return ""
	}
	var names []string
	at := v.lines[v.cursor].item
	for up := at; up > 0; up-- {
		if i := &v.items[up]; up == at || i.depth < v.items[at].depth {
			at = up
			if i.name != "" {
				names = append(names, i.name[1:len(i.name)-1])
			} else {
				names = append(names, "[]")
			}
		}
	}
	slices.Reverse(names)
	return "." + strings.Join(names, ".")
}
