package tui

import (
	"encoding/json"
	"strings"
)

// dataItem is a value within JSON.
type dataItem struct {
	name       string // with quotes; "" in a list
	from, to   int32  // position of its text
	next       int32  // the next item outside it
	count      int32  // number of items directly inside
	depth      int16
	kind       byte // the first character
	lastOfKind bool
}

// itemsOf returns the values within JSON; none if the text is not JSON.
func itemsOf(text string) []dataItem {
	if !json.Valid([]byte(text)) {
		return nil
	}
	return parseItems(text)
}

// itemParser parses text that is known to be JSON.
type itemParser struct {
	text  string
	at    int
	items []dataItem
}

func parseItems(text string) []dataItem {
	p := &itemParser{text: text, items: make([]dataItem, 0, len(text)/32+1)}
	p.value("", 0)
	return p.items
}

func (p *itemParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// value parses a value. JSON nested deeper than Go's parser allows is rejected.
func (p *itemParser) value(name string, depth int16) {
	p.space()
	me := len(p.items)
	p.items = append(p.items, dataItem{name: name, from: int32(p.at), depth: depth, kind: p.text[p.at]})
	n := int32(0)
	switch p.text[p.at] {
	case '{', '[':
		n = p.inside(depth)
	case '"':
		p.quoted()
	default:
		for p.at < len(p.text) && strings.IndexByte(" \t\r\n,]}", p.text[p.at]) < 0 {
			p.at++
		}
	}
	i := &p.items[me]
	i.to, i.next, i.count = int32(p.at), int32(len(p.items)), n
}

// inside parses what is between brackets.
func (p *itemParser) inside(depth int16) (n int32) {
	object := p.text[p.at] == '{'
	p.at++
	for last := -1; ; n++ {
		p.space()
		if c := p.text[p.at]; c == ',' {
			p.at++
			p.space()
		} else if c == '}' || c == ']' {
			p.at++
			if last >= 0 {
				p.items[last].lastOfKind = true
			}
			return n
		}
		name := ""
		if object {
			name = p.quoted()
			p.space()
			p.at++ // the colon
		}
		last = len(p.items)
		p.value(name, depth+1)
	}
}

// quoted parses a string and returns it with its quotes.
func (p *itemParser) quoted() string {
	from := p.at
	for p.at++; p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
	return p.text[from:p.at]
}

func (i *dataItem) holds() bool { return (i.kind == '{' || i.kind == '[') && i.count > 0 }

func unquoted(text string) string {
	var out string
	if json.Unmarshal([]byte(text), &out) != nil {
		return text
	}
	return out
}
