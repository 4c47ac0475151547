package tui

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/canvas"
)

// dataView shows a value: JSON whose objects and lists fold, or any text.
type dataView struct {
	text  string
	items []dataItem // of JSON, in order
	open  map[int32]bool
	usual int16 // depth to which everything is open

	canvas.List

	lines []dataLine
	width int
}

// dataLine is a visible line: an item, its end, or a part of a text.
type dataLine struct {
	item int32
	part string
	end  bool // the closing bracket
	more bool // a part of a text
}

// Bounds of what is shown of a long value.
const (
	maxDataLines = 300_000
	maxTextLines = 5000
	fewItems     = 200
)

// set shows another value, without the folding of the previous one.
func (v *dataView) set(text string) {
	if text != v.text || v.lines == nil {
		v.show(text, itemsOf(text))
	}
}

// show shows a value that has been parsed already.
func (v *dataView) show(text string, items []dataItem) {
	*v = dataView{text: text, items: items, List: canvas.List{Height: max(1, v.Height)}, width: v.width, open: map[int32]bool{}, usual: 100}
	if len(v.items) > fewItems {
		v.usual = v.depthOf(fewItems)
	}
	v.arrange()
}

// depthOf returns the depth to which a value can be opened with at most that many lines.
func (v *dataView) depthOf(limit int) int16 {
	var counts [64]int
	for i := range v.items {
		counts[min(int(v.items[i].depth), len(counts)-1)]++
	}
	depth, n := 0, counts[0]
	for depth < len(counts)-2 && n+counts[depth+1] <= limit {
		depth++
		n += counts[depth]
	}
	return int16(max(1, depth))
}

// opened reports whether the inside of an item is shown; for a text, whether all of it is.
func (v *dataView) opened(at int32) bool {
	if open, chosen := v.open[at]; chosen {
		return open
	}
	return v.items[at].holds() && v.items[at].depth < v.usual
}

// arrange rebuilds the lines.
func (v *dataView) arrange() {
	v.lines = v.lines[:0]
	if v.items == nil {
		v.lines = textLines(v.lines, v.text, v.width, 0)
	} else {
		v.arrangeItems()
	}
	v.Fit(len(v.lines))
}

func (v *dataView) arrangeItems() {
	var ends []int32
	for at := int32(0); int(at) < len(v.items) && len(v.lines) < maxDataLines; {
		for n := len(ends); n > 0 && v.items[ends[n-1]].next <= at; n-- {
			v.lines = append(v.lines, dataLine{item: ends[n-1], end: true})
			ends = ends[:n-1]
		}
		i := &v.items[at]
		v.lines = append(v.lines, dataLine{item: at})
		switch open := v.opened(at); {
		case open && i.kind == '"':
			v.lines = textLines(v.lines, unquoted(v.text[i.from:i.to]), v.width-2*int(i.depth)-4, at)
			at++
		case open && i.holds():
			ends = append(ends, at)
			at++
		default:
			at = i.next
		}
	}
	if len(v.lines) >= maxDataLines {
		v.lines = append(v.lines, dataLine{part: "(more is not shown)", more: true})
		return
	}
	for _, item := range slices.Backward(ends) {
		v.lines = append(v.lines, dataLine{item: item, end: true})
	}
}

// textLines wraps a text.
func textLines(lines []dataLine, text string, width int, item int32) []dataLine {
	if width <= 0 {
		width = 80
	}
	left := maxTextLines
	for paragraph := range strings.SplitSeq(text, "\n") {
		paragraph = strings.TrimSuffix(paragraph, "\r")
		for first := true; first || paragraph != ""; first = false {
			if left--; left < 0 {
				return append(lines, dataLine{item: item, part: "(more is not shown)", more: true})
			}
			n := fits(paragraph, width)
			lines = append(lines, dataLine{item: item, part: paragraph[:n], more: true})
			paragraph = paragraph[n:]
		}
	}
	return lines
}

// fits returns how many bytes of a text fit into a width, at least one character.
func fits(text string, width int) int {
	// A character takes a cell or more, or combines with the previous one.
	if len(text) <= width && canvas.Plain(text) {
		return len(text)
	}
	n, cells := 0, 0
	for n < len(text) {
		_, size := utf8.DecodeRuneInString(text[n:])
		cells += canvas.Width(text[n : n+size])
		if cells > width && n > 0 {
			return n
		}
		n += size
	}
	return n
}

// dataItem is a value within JSON.
type dataItem struct {
	name     string // with quotes; "" in a list
	from, to int32  // position of its text
	next     int32  // the next item outside it
	count    int    // number of items directly inside
	depth    int16
	kind     byte // the first character
	last     bool // no other item follows in the same object or list
}

// itemsOf returns the values within JSON, in order; none if the text is not JSON.
func itemsOf(text string) []dataItem {
	if !json.Valid([]byte(text)) {
		return nil
	}
	items := make([]dataItem, 0, len(text)/32+1)
	var open []int32 // the objects and lists around the position
	name := ""       // of the next value of an object; "" before it
	for from, to := tokenAt(text, 0); from < len(text); from, to = tokenAt(text, to) {
		token, within := text[from:to], len(open)-1
		switch {
		case token == "}" || token == "]":
			i := &items[open[within]]
			i.to, i.next, open = int32(to), int32(len(items)), open[:within]
			continue
		case within >= 0 && items[open[within]].kind == '{' && name == "":
			name = token
			continue
		case within >= 0:
			items[open[within]].count++
		}
		at := int32(len(items))
		items = append(items, dataItem{name: name, from: int32(from), to: int32(to), next: at + 1, depth: int16(len(open)), kind: token[0]})
		if name = ""; token == "{" || token == "[" {
			open = append(open, at)
		}
	}
	for at := range items {
		i := &items[at]
		i.last = int(i.next) == len(items) || items[i.next].depth < i.depth
	}
	return items
}

// tokenAt finds the first token at or after a position of JSON, apart from commas and colons.
func tokenAt(text string, from int) (begin, end int) {
	const between = " \t\r\n,:"
	for from < len(text) && strings.IndexByte(between, text[from]) >= 0 {
		from++
	}
	end = from + 1
	switch {
	case from == len(text), strings.IndexByte("{}[]", text[from]) >= 0:
	case text[from] == '"':
		for ; text[end] != '"'; end++ {
			if text[end] == '\\' {
				end++
			}
		}
		end++
	default:
		for end < len(text) && strings.IndexByte(between+"}]", text[end]) < 0 {
			end++
		}
	}
	return from, end
}

func (i *dataItem) holds() bool { return (i.kind == '{' || i.kind == '[') && i.count > 0 }

func unquoted(text string) string {
	var out string
	if json.Unmarshal([]byte(text), &out) != nil {
		return text
	}
	return out
}

// resize sets the width and the height.
func (v *dataView) resize(width, height int) {
	v.Height = max(1, height)
	if width == v.width {
		return
	}
	v.width = width
	if v.lines != nil {
		v.arrange()
	}
}

// draw draws the window.
func (v *dataView) draw(a canvas.Area, theme canvas.Theme, focus bool) {
	v.resize(a.W, a.H)
	cursor := canvas.Normal
	if focus {
		cursor = canvas.Selected
	}
	v.Rows(a, len(v.lines), cursor, func(row canvas.Area, at int) { v.drawLine(row, theme, &v.lines[at]) })
}

func (v *dataView) drawLine(a canvas.Area, theme canvas.Theme, line *dataLine) {
	if v.items == nil {
		a.Put(0, 0, canvas.Normal, line.part)
		return
	}
	i := &v.items[line.item]
	x := min(2*int(i.depth), max(0, a.W-20))
	switch {
	case line.more:
		a.Put(x+4, 0, canvas.Good, line.part)
	case line.end:
		a.Put(x+2, 0, canvas.Faint, closing(i)+comma(i))
	default:
		v.drawItem(a, theme, line.item, x)
	}
}

func closing(i *dataItem) string { return string(rune(i.kind + 2)) }

func comma(i *dataItem) string {
	if i.last || i.depth == 0 {
		return ""
	}
	return ","
}

func (v *dataView) drawItem(a canvas.Area, theme canvas.Theme, at int32, x int) {
	i := &v.items[at]
	open := v.opened(at)
	if i.holds() || i.kind == '"' && (open || v.long(i)) {
		a.Put(x, 0, canvas.Faint, [2]string{theme.Pick("▹", "+"), theme.Pick("▿", "-")}[truth(open)])
	}
	x += 2
	if i.name != "" {
		x = a.Put(x, 0, canvas.Accent, canvas.Clip(i.name, max(8, a.W/2), theme.More()))
		x = a.Put(x, 0, canvas.Faint, ": ")
	}
	text := v.text[i.from:i.to]
	switch i.kind {
	case '{', '[':
		v.drawHolder(a, i, x, open)
	case '"':
		v.drawText(a, theme, i, x)
	case 't', 'f', 'n':
		x = a.Put(x, 0, canvas.Calm, text)
		a.Put(x, 0, canvas.Faint, comma(i))
	default:
		x = theme.Rest(a, x, canvas.Warn, text)
		a.Put(x, 0, canvas.Faint, comma(i))
	}
}

func (*dataView) drawHolder(a canvas.Area, i *dataItem, x int, open bool) {
	opening := string(rune(i.kind))
	switch {
	case i.count == 0:
		a.Put(x, 0, canvas.Faint, opening+closing(i)+comma(i))
	case open:
		a.Put(x, 0, canvas.Faint, opening)
	default:
		what := "member"
		if i.kind == '[' {
			what = "item"
		}
		a.Put(x, 0, canvas.Faint, opening+" "+history.Count(i.count, what)+" "+closing(i)+comma(i))
	}
}

// long reports whether a text needs more than one line.
func (v *dataView) long(i *dataItem) bool {
	text := v.text[i.from:i.to]
	width := v.width - 2*int(i.depth) - canvas.Width(i.name) - 6
	return len(text) > width && (len(text) > 4*v.width || canvas.Width(text) > width)
}

func (v *dataView) drawText(a canvas.Area, theme canvas.Theme, i *dataItem, x int) {
	text := v.text[i.from:i.to]
	if !v.long(i) {
		x = a.Put(x, 0, canvas.Good, text)
		a.Put(x, 0, canvas.Faint, comma(i))
		return
	}
	note := " " + history.Number(len(text)-2) + " bytes"
	width := max(1, a.W-x-canvas.Width(note)-1)
	// Read no more than can be shown.
	head := strings.ToValidUTF8(text[:min(len(text), 4*width)], "")
	x = a.Put(x, 0, canvas.Good, canvas.Clip(head, width, theme.More()))
	a.Put(x, 0, canvas.Faint, note+comma(i))
}

// fold opens or closes the item at the cursor.
func (v *dataView) fold(open bool) {
	if v.items == nil || v.Cursor >= len(v.lines) {
		return
	}
	at := v.lines[v.Cursor].item
	i := &v.items[at]
	switch now := v.opened(at); {
	case now == open && !open:
		v.outside(at)
		return
	case now == open:
		v.Move(1)
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

// toggleFold toggles the item at the cursor.
func (v *dataView) toggleFold() {
	if v.items != nil && v.Cursor < len(v.lines) {
		v.fold(!v.opened(v.lines[v.Cursor].item))
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
			v.To(n)
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

// value returns the path and the value at the cursor: a string without its quotes, anything else
// as JSON.
func (v *dataView) value() (what, text string) {
	switch {
	case v.Cursor >= len(v.lines):
		return "value", ""
	case v.items == nil:
		return "text", v.text
	}
	i := &v.items[v.lines[v.Cursor].item]
	text = v.text[i.from:i.to]
	if i.kind == '"' {
		text = unquoted(text)
	}
	if what = v.label(); what == "." {
		return "value", text
	}
	return "value of " + what, text
}

// label returns the jq path of the cursor within the value.
func (v *dataView) label() string {
	if v.items == nil || v.Cursor >= len(v.lines) {
		return ""
	}
	path, at, index := "", v.lines[v.Cursor].item, 0
	for up := at - 1; up >= 0; up-- {
		switch i := &v.items[at]; {
		case v.items[up].depth == i.depth:
			index++
		case v.items[up].depth < i.depth:
			if i.name == "" {
				path = "[" + strconv.Itoa(index) + "]" + path
			} else {
				path = "." + pathName(i.name) + path
			}
			at, index = up, 0
		}
	}
	if path == "" || path[0] == '[' {
		return "." + path
	}
	return path
}

// pathName removes the quotes of a name that needs none in a jq path.
func pathName(quoted string) string {
	name := quoted[1 : len(quoted)-1]
	needed := func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if name == "" || name[0] <= '9' || strings.ContainsFunc(name, needed) {
		return quoted
	}
	return name
}
