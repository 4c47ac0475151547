package lua

import "strings"

// pattern is a Lua pattern that is matched with a text. Patterns with %b, %f and %1 are
// left to gopher-lua.
type pattern struct {
	text, pattern string
	captures      [maxCaptures]capture
	count         int // of captures
	depth         int // of nested calls
}

// capture is a part of the text; to is unset until it is known.
type capture struct{ from, to int }

const (
	maxCaptures = 32
	maxMatching = 200 // nested calls, as in C
	open        = -1
	position    = -2
)

// plainPattern reports whether pattern supports p.
func plainPattern(p string) bool {
	for i := 0; i < len(p)-1; i++ {
		if p[i] != '%' {
			continue
		}
		i++
		if p[i] == 'b' || p[i] == 'f' || p[i] >= '0' && p[i] <= '9' {
			return false
		}
	}
	return strings.Count(p, "(") == strings.Count(p, ")") && !strings.HasSuffix(p, "%") && strings.Count(p, "[") == strings.Count(p, "]")
}

// find matches the pattern at each position of the text, and returns the range of the
// first match.
func (m *pattern) find() (from, to int, ok bool) {
	p, anchored := strings.CutPrefix(m.pattern, "^")
	for at := 0; at <= len(m.text); at++ {
		m.count, m.depth = 0, 0
		if end := m.match(at, p); end >= 0 {
			return at, end, true
		}
		if anchored {
			break
		}
	}
	return 0, 0, false
}

// match returns the end of the match of p that begins at a position; -1 if there is none.
func (m *pattern) match(at int, p string) int {
	if m.depth++; m.depth > maxMatching {
		return -1
	}
	defer func() { m.depth-- }()
	for p != "" {
		switch {
		case p[0] == '(':
			return m.begin(at, p[1:])
		case p[0] == ')':
			return m.end(at, p[1:])
		case p == "$":
			if at == len(m.text) {
				return at
			}
			return -1
		}
		n := thing(p)
		one, rest := p[:n], p[n:]
		if rest != "" && strings.IndexByte("?+*-", rest[0]) >= 0 {
			return m.times(at, one, rest)
		}
		if at == len(m.text) || !means(one, m.text[at]) {
			return -1
		}
		at, p = at+1, rest
	}
	return at
}

// times matches one item as often as the repetition sign at the start of rest says, and
// then the rest.
func (m *pattern) times(at int, one, rest string) int {
	here := at < len(m.text) && means(one, m.text[at])
	how, rest := rest[0], rest[1:]
	switch {
	case how == '*':
		return m.most(at, one, rest)
	case how == '-':
		return m.fewest(at, one, rest)
	case how == '+' && here:
		return m.most(at+1, one, rest)
	case how == '+':
		return -1
	}
	if here {
		if end := m.match(at+1, rest); end >= 0 {
			return end
		}
	}
	return m.match(at, rest)
}

func (m *pattern) begin(at int, p string) int {
	if m.count == maxCaptures {
		return -1
	}
	m.captures[m.count] = capture{at, open}
	if strings.HasPrefix(p, ")") {
		m.captures[m.count].to = position
		p = p[1:]
	}
	m.count++
	end := m.match(at, p)
	if end < 0 {
		m.count--
	}
	return end
}

func (m *pattern) end(at int, p string) int {
	for i := m.count - 1; i >= 0; i-- {
		if m.captures[i].to != open {
			continue
		}
		m.captures[i].to = at
		end := m.match(at, p)
		if end < 0 {
			m.captures[i].to = open
		}
		return end
	}
	return -1
}

// most matches one item as often as possible.
func (m *pattern) most(at int, one, rest string) int {
	n := at
	for n < len(m.text) && means(one, m.text[n]) {
		n++
	}
	for ; n >= at; n-- {
		if end := m.match(n, rest); end >= 0 {
			return end
		}
	}
	return -1
}

// fewest matches one item as few times as possible.
func (m *pattern) fewest(at int, one, rest string) int {
	for {
		if end := m.match(at, rest); end >= 0 {
			return end
		}
		if at == len(m.text) || !means(one, m.text[at]) {
			return -1
		}
		at++
	}
}

// thing returns the length of the first single-character item of a pattern.
func thing(p string) int {
	switch p[0] {
	case '%':
		return min(2, len(p))
	case '[':
		i := 1
		if i < len(p) && p[i] == '^' {
			i++
		}
		for first := true; i < len(p) && (first || p[i] != ']'); first = false {
			if p[i] == '%' {
				i++
			}
			i++
		}
		return min(i+1, len(p))
	default:
		return 1
	}
}

// means reports whether an item matches a byte.
func means(one string, c byte) bool {
	switch one[0] {
	case '.':
		return true
	case '%':
		return inClass(one[1], c)
	case '[':
		return inSet(one[1:len(one)-1], c)
	default:
		return one[0] == c
	}
}

// inSet reports whether a byte is in a set, such as ^a-z_.
func inSet(set string, c byte) bool {
	set, not := strings.CutPrefix(set, "^")
	for i := 0; i < len(set); i++ {
		switch {
		case set[i] == '%' && i+1 < len(set):
			i++
			if inClass(set[i], c) {
				return !not
			}
		case i+2 < len(set) && set[i+1] == '-':
			if set[i] <= c && c <= set[i+2] {
				return !not
			}
			i += 2
		case set[i] == c:
			return !not
		}
	}
	return not
}

// inClass reports whether a byte is in a class such as %d. An upper-case class is the
// complement; other bytes match themselves.
func inClass(class, c byte) bool {
	letter := c|0x20 >= 'a' && c|0x20 <= 'z'
	digit := c >= '0' && c <= '9'
	graphic := c > ' ' && c < 0x7f
	var is bool
	switch class | 0x20 {
	case 'a':
		is = letter
	case 'd':
		is = digit
	case 'l':
		is = c >= 'a' && c <= 'z'
	case 'u':
		is = c >= 'A' && c <= 'Z'
	case 's':
		is = c == ' ' || c >= '\t' && c <= '\r'
	case 'w':
		is = letter || digit
	case 'x':
		is = digit || c|0x20 >= 'a' && c|0x20 <= 'f'
	case 'p':
		is = graphic && !letter && !digit
	case 'c':
		is = c < ' ' || c == 0x7f
	default:
		return class == c
	}
	return is == (class&0x20 != 0)
}
