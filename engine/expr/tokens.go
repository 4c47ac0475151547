package expr

import "strings"

// token is a token of an expression. gojq's syntax tree has no positions, so they are determined
// here.
type token struct {
	text  string
	start int // byte offset in the source
	kind  tokenKind
}

type tokenKind int

const (
	operatorToken tokenKind = iota // an operator, a bracket, or a character that jq does not know
	wordToken                      // a keyword or the name of a function
	variableToken                  // $name
	fieldToken                     // .name
	numberToken
	stringToken // a string, or the part of one before or after \( )
)

func (t token) end() int { return t.start + len(t.text) }

// tokens splits an expression into tokens. It accepts any input: a character that jq does not know
// becomes an operator.
func tokens(src string) []token {
	l := &lexer{src: src}
	for l.at < len(src) {
		l.next()
	}
	return l.found
}

type lexer struct {
	src   string
	at    int
	found []token
	open  []int // for each open \(: the parentheses open inside it
}

func (l *lexer) add(kind tokenKind, end int) {
	l.found = append(l.found, token{l.src[l.at:end], l.at, kind})
	l.at = end
}

func (l *lexer) next() {
	c := l.src[l.at]
	switch {
	case strings.IndexByte(" \t\r\n", c) >= 0:
		l.at++
	case c == '#':
		if end := strings.IndexByte(l.src[l.at:], '\n'); end >= 0 {
			l.at += end
			return
		}
		l.at = len(l.src)
	case c == '"':
		l.text()
	case c == '$' && letterAt(l.src, l.at+1):
		l.add(variableToken, wordEnd(l.src, l.at+1))
	case c == '.' && letterAt(l.src, l.at+1):
		l.add(fieldToken, wordEnd(l.src, l.at+1))
	case letterAt(l.src, l.at), c == '@' && letterAt(l.src, l.at+1):
		l.add(wordToken, wordEnd(l.src, l.at+1))
	case digitAt(l.src, l.at), c == '.' && digitAt(l.src, l.at+1):
		l.add(numberToken, numberEnd(l.src, l.at))
	default:
		l.operator()
	}
}

func (l *lexer) operator() {
	for _, op := range []string{"?//=", "?//", "//=", "|=", "+=", "-=", "*=", "/=", "%=", "==", "!=", "<=", ">=", "//", ".."} {
		if strings.HasPrefix(l.src[l.at:], op) {
			l.add(operatorToken, l.at+len(op))
			return
		}
	}
	size := 1
	for l.at+size < len(l.src) && l.src[l.at+size]&0xc0 == 0x80 {
		size++ // the rest of one character
	}
	c := l.src[l.at]
	l.add(operatorToken, l.at+size)
	if len(l.open) == 0 {
		return
	}
	last := len(l.open) - 1
	switch {
	case c == '(':
		l.open[last]++
	case c == ')' && l.open[last] > 0:
		l.open[last]--
	case c == ')':
		// The \( ) is closed: its string continues.
		l.open, l.at = l.open[:last], l.at-1
		l.found = l.found[:len(l.found)-1]
		l.text()
	}
}

// text reads a string from its quote, or from the ) of a \( ), to its end or its next \(.
func (l *lexer) text() {
	for i := l.at + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '"':
			l.add(stringToken, i+1)
			return
		case '\\':
			i++
			if i < len(l.src) && l.src[i] == '(' {
				l.add(stringToken, i+1)
				l.open = append(l.open, 0)
				return
			}
		}
	}
	l.add(stringToken, len(l.src))
}

func letterAt(s string, i int) bool {
	return i < len(s) && (s[i] == '_' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}

func digitAt(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }

func wordEnd(s string, i int) int {
	for letterAt(s, i) || digitAt(s, i) || strings.HasPrefix(s[min(i, len(s)):], "::") && letterAt(s, i+2) {
		if s[i] == ':' {
			i++
		}
		i++
	}
	return i
}

func numberEnd(s string, i int) int {
	for digitAt(s, i) || i < len(s) && s[i] == '.' && digitAt(s, i+1) {
		i++
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		exponent := i + 1
		if exponent < len(s) && (s[exponent] == '+' || s[exponent] == '-') {
			exponent++
		}
		for ; digitAt(s, exponent); exponent++ {
			i = exponent + 1
		}
	}
	return i
}

// callAt returns the offset of the first call of a function with arity arguments, or 0.
func callAt(src, name string, arity int) int {
	found := tokens(src)
	for i, t := range found {
		if t.kind == wordToken && t.text == name && arguments(found[i+1:]) == arity {
			return t.start
		}
	}
	return 0
}

// arguments counts the arguments in the parentheses at the start of the tokens.
func arguments(rest []token) int {
	if len(rest) == 0 || rest[0].text != "(" {
		return 0
	}
	depth, count := 0, 1
	for _, t := range rest {
		if t.kind != operatorToken {
			continue
		}
		switch t.text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return count
			}
		case ";":
			if depth == 1 {
				count++
			}
		}
	}
	return count
}
