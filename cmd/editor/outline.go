package editor

import (
	"strings"

	"flunq.io/flunq/engine/yaml"
)

// outline is the structure of YAML source, as far as single lines show it. Unlike a parser, it
// also understands source that is being typed, and knows the position of each key.
type outline struct {
	lines []string
	root  *node
	kinds []lineKind // of each line
	first []*node    // of each line: the key or item that begins there
	owner []*node    // of each line: the innermost key or item outside of brackets that it belongs to
}

// lineKind is the kind of a line.
type lineKind int

const (
	blank     lineKind = iota
	comment            // nothing but a comment
	structure          // a key or an item begins here
	continued          // the value of the line before continues: in brackets or without quotes
	verbatim           // part of a literal, whose spaces matter
	marker             // --- or ..., or a directive
)

// bytePosition is a position in a source: a line and a byte in it, both from 0.
type bytePosition struct{ line, byte int }

func (s bytePosition) before(other bytePosition) bool {
	return s.line < other.line || s.line == other.line && s.byte < other.byte
}

// node is a key with its value, or an item of a list.
type node struct {
	key      string // "" for an item
	item     bool
	at       bytePosition // of the key or the dash; in brackets of the item itself
	keyEnd   bytePosition
	value    string // a scalar, without its quotes
	valueAt  bytePosition
	end      bytePosition // after the value
	opener   byte         // the first byte of the value if it determines the form: { [ | > " '
	flow     bool         // it is in brackets
	children []*node
	parent   *node
	depth    int // at most yaml.MaxDepth on one line: anything deeper is text
}

// member returns the child with a key.
func (n *node) member(key string) *node {
	if n == nil {
		return nil
	}
	for _, c := range n.children {
		if !c.item && c.key == key {
			return c
		}
	}
	return nil
}

// has implements members: it reports which members a map has.
func (n *node) has(key string) (value string, has bool) {
	m := n.member(key)
	if m == nil {
		return "", false
	}
	return m.value, true
}

// walk visits a node and all below it.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, c := range n.children {
		c.walk(visit)
	}
}

// readOutline returns the structure of a source.
func readOutline(text string) *outline {
	o := &outline{lines: strings.Split(text, "\n"), root: &node{at: bytePosition{0, -1}}}
	for i, line := range o.lines {
		o.lines[i] = strings.TrimSuffix(line, "\r")
	}
	o.kinds = make([]lineKind, len(o.lines))
	o.first, o.owner = make([]*node, len(o.lines)), make([]*node, len(o.lines))
	p := &outliner{outline: o, top: o.root}
	for p.line < len(o.lines) {
		p.block()
	}
	return o
}

// outliner reads the lines of an outline.
type outliner struct {
	*outline
	line int
	col  int   // within a line, in brackets
	top  *node // the innermost key or item outside of brackets
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// block reads a line that is not in brackets, and the lines that its value takes.
func (p *outliner) block() {
	i, text := p.line, strings.TrimSpace(p.lines[p.line])
	indent := indentOf(p.lines[i])
	p.line++
	switch {
	case text == "":
		return
	case text[0] == '#':
		p.kinds[i] = comment
		return
	case indent == 0 && (text == "---" || text == "..." || text[0] == '%'):
		p.kinds[i] = marker
		return
	}
	if p.top.value != "" && p.top.opener == 0 && indent > p.top.at.byte && !isEntry(text) {
		p.carryOn(i)
		p.top.value += " " + text
		p.top.end = bytePosition{i, indent + len(text)}
		return
	}
	p.kinds[i] = structure
	col := indent
	for isDash(p.lines[i][col:]) && p.top.depth < yaml.MaxDepth {
		p.leave(col, true)
		p.enter(&node{item: true, at: bytePosition{i, col}, keyEnd: bytePosition{i, col + 1}}, i)
		rest := p.lines[i][col+1:]
		col += 1 + indentOf(rest)
		if rest = strings.TrimSpace(rest); rest == "" || rest[0] == '#' {
			return
		}
	}
	if key, end, after := keyAt(p.lines[i], col); after > 0 {
		p.leave(col, false)
		p.enter(&node{key: key, at: bytePosition{i, col}, keyEnd: bytePosition{i, end}}, i)
		col = after
	}
	p.scalar(i, col)
}

// isEntry reports whether text begins a key or an item.
func isEntry(text string) bool {
	_, _, after := keyAt(text, 0)
	return isDash(text) || after > 0
}

func isDash(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

// leave ends the keys and items that do not contain an entry at this column.
func (p *outliner) leave(col int, dash bool) {
	for p.top != p.root && (p.top.at.byte > col || p.top.at.byte == col && (!dash || p.top.item)) {
		p.top = p.top.parent
	}
}

func (p *outliner) enter(n *node, line int) {
	n.parent, n.end, n.depth = p.top, n.keyEnd, p.top.depth+1
	p.top.children = append(p.top.children, n)
	p.top = n
	p.owner[line] = n
	if p.first[line] == nil {
		p.first[line] = n
	}
}

// carryOn marks a line, and the blank lines before it, as the continuation of a value.
func (p *outliner) carryOn(line int) {
	p.kinds[line], p.owner[line] = continued, p.top
	for l := line - 1; l >= 0 && p.kinds[l] == blank; l-- {
		p.kinds[l], p.owner[l] = verbatim, p.top
	}
}

// keyAt reads a key at a byte of a line: its text, where it ends, and where its value begins;
// after is 0 if there is none.
func keyAt(line string, col int) (key string, end, after int) {
	rest := line[col:]
	if rest == "" || strings.ContainsRune("{[|>#,}]", rune(rest[0])) {
		return "", 0, 0
	}
	if rest[0] == '"' || rest[0] == '\'' {
		closing := yaml.QuoteEnd(rest, 0) + 1
		if closing == 0 {
			return "", 0, 0
		}
		behind := strings.TrimLeft(rest[closing:], " ")
		if behind != ":" && !strings.HasPrefix(behind, ": ") {
			return "", 0, 0
		}
		return rest[1 : closing-1], col + closing, len(line) - len(behind) + 1
	}
	for i := range rest {
		switch {
		case rest[i] == '#' && i > 0 && rest[i-1] == ' ':
			return "", 0, 0
		case rest[i] == ':' && (i+1 == len(rest) || rest[i+1] == ' ' || rest[i+1] == '\t'):
			key = strings.TrimRight(rest[:i], " ")
			return key, col + len(key), col + i + 1
		}
	}
	return "", 0, 0
}

// scalar reads the value of the innermost key or item, from byte col of line i.
func (p *outliner) scalar(i, col int) {
	n, line := p.top, p.lines[i]
	for { // an anchor or a tag
		col += len(line[col:]) - len(strings.TrimLeft(line[col:], " \t"))
		if col >= len(line) || line[col] != '&' && line[col] != '!' {
			break
		}
		word, _, _ := strings.Cut(line[col:], " ")
		col += len(word)
	}
	n.valueAt, n.end = bytePosition{i, col}, bytePosition{i, col}
	if col >= len(line) || line[col] == '#' {
		return
	}
	p.owner[i] = n
	switch n.opener = line[col]; n.opener {
	case '|', '>':
		p.literal(n, line[col:])
	case '"', '\'':
		p.quoted(n, i, col)
	case '{', '[':
		p.line, p.col = i, col
		p.brackets(n)
		p.line, p.col = p.line+1, 0
	default:
		n.opener = 0
		n.value = plainText(line[col:])
		n.end = bytePosition{i, col + len(n.value)}
	}
}

// plainText returns an unquoted scalar, without a comment after it.
func plainText(s string) string {
	if i := strings.Index(s, " #"); i >= 0 {
		s = s[:i]
	}
	return strings.TrimRight(s, " \t")
}

// literal reads the lines of a block scalar after | or >.
func (p *outliner) literal(n *node, head string) {
	head, _, _ = strings.Cut(head, " ")
	last, indent := p.line, n.at.byte+1
	for l := p.line; l < len(p.lines); l++ {
		if strings.TrimSpace(p.lines[l]) == "" {
			continue
		}
		if indentOf(p.lines[l]) < indent {
			break
		}
		if last == p.line && !strings.ContainsAny(head, "123456789") {
			indent = indentOf(p.lines[l])
		}
		last = l + 1
	}
	if strings.Contains(head, "+") { // blank lines after it matter
		for last < len(p.lines)-1 && strings.TrimSpace(p.lines[last]) == "" {
			last++
		}
	}
	for ; p.line < last; p.line++ {
		p.kinds[p.line], p.owner[p.line] = verbatim, n
		n.end = bytePosition{p.line, len(p.lines[p.line])}
		n.value += strings.TrimSpace(p.lines[p.line]) + "\n"
	}
}

// quoted reads a quoted scalar, which may take several lines.
func (p *outliner) quoted(n *node, i, col int) {
	text := p.lines[i][col:]
	for l := i; ; {
		if closing := yaml.QuoteEnd(text, 0) + 1; closing > 0 {
			n.value, n.end = text[1:closing-1], bytePosition{l, col + closing}
			if newline := strings.LastIndexByte(text[:closing], '\n'); newline >= 0 {
				n.end.byte = closing - newline - 1
			}
			for ; p.line <= l; p.line++ {
				p.kinds[p.line], p.owner[p.line] = verbatim, n
			}
			return
		}
		l++
		if l >= len(p.lines) || strings.TrimSpace(p.lines[l]) != "" && indentOf(p.lines[l]) <= n.at.byte {
			n.value = plainText(p.lines[i][col:]) // never closed: it ends with the line
			n.end = bytePosition{i, col + len(n.value)}
			return
		}
		text += "\n" + p.lines[l]
	}
}

// peek moves to the next byte of a value in brackets that is neither space nor in a comment, on a
// later line if necessary, and returns it. It returns 0 if the brackets are never closed.
func (p *outliner) peek() byte {
	for {
		line := p.lines[p.line]
		for p.col < len(line) && (line[p.col] == ' ' || line[p.col] == '\t') {
			p.col++
		}
		if p.col < len(line) && (line[p.col] != '#' || p.col > 0 && line[p.col-1] != ' ') {
			return line[p.col]
		}
		next := p.line + 1
		for next < len(p.lines) && strings.TrimSpace(p.lines[next]) == "" {
			next++
		}
		if next >= len(p.lines) {
			return 0
		}
		text := strings.TrimSpace(p.lines[next])
		if indentOf(p.lines[next]) <= p.top.at.byte && !strings.ContainsRune("}]#", rune(text[0])) {
			return 0
		}
		for p.line < next {
			p.line++
			p.kinds[p.line], p.owner[p.line] = continued, p.top
		}
		p.col = 0
	}
}

// brackets reads the members of a map or the items of a list in brackets, at its opening.
func (p *outliner) brackets(n *node) {
	n.opener = p.lines[p.line][p.col]
	n.valueAt = bytePosition{p.line, p.col}
	p.col++
	if n.depth >= yaml.MaxDepth {
		return
	}
	for {
		c := p.peek()
		n.end = bytePosition{p.line, p.col}
		switch c {
		case 0:
			return
		case '}', ']':
			p.col++
			n.end = bytePosition{p.line, p.col}
			return
		case ',':
			p.col++
		default:
			p.entry(n)
		}
	}
}

// entry reads a member or an item in brackets.
func (p *outliner) entry(n *node) {
	child := &node{flow: true, parent: n, at: bytePosition{p.line, p.col}, item: n.opener == '[', depth: n.depth + 1}
	n.children = append(n.children, child)
	if child.item {
		if c := p.lines[p.line][p.col]; c == '{' || c == '[' {
			p.brackets(child)
			return
		}
		child.valueAt = child.at
		child.value, child.end = p.word()
		if p.peek() != ':' {
			return
		}
		pair := &node{key: child.value, flow: true, parent: child, at: child.at, keyEnd: child.end, end: child.end, depth: child.depth + 1}
		child.children, child.value = []*node{pair}, ""
		child = pair
	} else {
		child.key, child.keyEnd = p.word()
		child.end = child.keyEnd
		if p.peek() != ':' {
			return
		}
	}
	p.col++
	child.valueAt = bytePosition{p.line, p.col}
	child.end = child.valueAt
	switch c := p.peek(); c {
	case 0, ',', '}', ']':
	case '{', '[':
		p.brackets(child)
	default:
		child.valueAt = bytePosition{p.line, p.col}
		child.opener = c
		if c != '"' && c != '\'' {
			child.opener = 0
		}
		child.value, child.end = p.word()
	}
}

// word reads a scalar in brackets, and returns where it ends.
func (p *outliner) word() (string, bytePosition) {
	line, from := p.lines[p.line], p.col
	if c := line[from]; c == '"' || c == '\'' {
		for text := line[from:]; ; {
			if closing := yaml.QuoteEnd(text, 0) + 1; closing > 0 {
				p.col += closing
				if i := strings.LastIndexByte(text[:closing], '\n'); i >= 0 {
					p.col = closing - i - 1
				}
				return text[1 : closing-1], bytePosition{p.line, p.col}
			}
			if p.line+1 >= len(p.lines) || indentOf(p.lines[p.line+1]) <= p.top.at.byte {
				p.col = len(p.lines[p.line])
				return text[1:], bytePosition{p.line, p.col}
			}
			p.line++
			p.kinds[p.line], p.owner[p.line] = verbatim, p.top
			text += "\n" + p.lines[p.line]
		}
	}
	to := from + 1
	for to < len(line) && !strings.ContainsRune(",[]{}", rune(line[to])) &&
		(line[to] != ':' || to+1 < len(line) && !strings.ContainsRune(" ,]}", rune(line[to+1]))) &&
		(line[to] != '#' || line[to-1] != ' ') {
		to++
	}
	p.col = to
	if line[from] == ':' || line[from] == ',' { // a stray one
		return "", bytePosition{p.line, from}
	}
	text := strings.TrimRight(line[from:to], " ")
	return text, bytePosition{p.line, from + len(text)}
}
