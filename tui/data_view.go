package tui

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// dataView shows a value: JSON whose objects and lists fold, or any text.
type dataView struct {
	text  string
	items []dataItem // of JSON, in order
	open  map[int32]bool
	usual int16 // depth to which everything is open

	lines          []dataLine
	cursor, offset int
	height, space  int
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
	mostDataLines = 300_000
	mostTextLines = 5000
	fewItems      = 200
)

// set shows another value, without the folding of the previous one.
func (v *dataView) set(text string) {
	if text != v.text || v.lines == nil {
		v.show(text, itemsOf(text))
	}
}

// show shows a value that has been parsed already.
func (v *dataView) show(text string, items []dataItem) {
	*v = dataView{text: text, items: items, height: max(1, v.height), space: v.space, open: map[int32]bool{}, usual: 100}
	if len(v.items) > fewItems {
		v.usual = v.depthOf(fewItems)
	}
	v.arrange()
}

// depthOf returns the depth to which a value can be opened with at most that many lines.
func (v *dataView) depthOf(most int) int16 {
	var counts [64]int
	for i := range v.items {
		counts[min(int(v.items[i].depth), len(counts)-1)]++
	}
	depth, n := 0, counts[0]
	for depth < len(counts)-2 && n+counts[depth+1] <= most {
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
		v.lines = textLines(v.lines, v.text, v.space, 0)
	} else {
		v.arrangeItems()
	}
	v.to(v.cursor)
}

func (v *dataView) arrangeItems() {
	var ends []int32
	for at := int32(0); int(at) < len(v.items) && len(v.lines) < mostDataLines; {
		for n := len(ends); n > 0 && v.items[ends[n-1]].next <= at; n-- {
			v.lines = append(v.lines, dataLine{item: ends[n-1], end: true})
			ends = ends[:n-1]
		}
		i := &v.items[at]
		v.lines = append(v.lines, dataLine{item: at})
		switch open := v.opened(at); {
		case open && i.kind == '"':
			v.lines = textLines(v.lines, unquoted(v.text[i.from:i.to]), v.space-2*int(i.depth)-4, at)
			at++
		case open && i.holds():
			ends = append(ends, at)
			at++
		default:
			at = i.next
		}
	}
	if len(v.lines) >= mostDataLines {
		v.lines = append(v.lines, dataLine{part: "(more is not shown)", more: true})
		return
	}
	for _, item := range slices.Backward(ends) {
		v.lines = append(v.lines, dataLine{item: item, end: true})
	}
}

// textLines wraps a text.
func textLines(lines []dataLine, text string, room int, item int32) []dataLine {
	if room <= 0 {
		room = 80
	}
	left := mostTextLines
	for paragraph := range strings.SplitSeq(text, "\n") {
		paragraph = strings.TrimSuffix(paragraph, "\r")
		for first := true; first || paragraph != ""; first = false {
			if left--; left < 0 {
				return append(lines, dataLine{item: item, part: "(more is not shown)", more: true})
			}
			n := fits(paragraph, room)
			lines = append(lines, dataLine{item: item, part: paragraph[:n], more: true})
			paragraph = paragraph[n:]
		}
	}
	return lines
}

// fits returns how many bytes of a text fit into a width, at least one character.
func fits(text string, room int) int {
	// A character takes a cell or more, or combines with the previous one.
	if len(text) <= room && plain(text) {
		return len(text)
	}
	n, cells := 0, 0
	for n < len(text) {
		_, size := utf8.DecodeRuneInString(text[n:])
		cells += width(text[n : n+size])
		if cells > room && n > 0 {
			return n
		}
		n += size
	}
	return n
}
