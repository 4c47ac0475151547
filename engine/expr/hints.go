package expr

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/lazyregexp"
)

// syntaxError explains a parser error to the author of a document: its position, its cause,
// and what to write instead.
func syntaxError(src string, err error) error {
	var parse *gojq.ParseError
	if !errors.As(err, &parse) {
		return &SyntaxError{Message: err.Error()}
	}
	at := min(max(parse.Offset-len(parse.Token), 0), len(src))
	h := &hinter{src: src, words: tokens(src)}
	h.word = slices.IndexFunc(h.words, func(t token) bool { return t.end() > at })
	if h.word < 0 {
		h.word = len(h.words)
	}
	switch said := err.Error(); {
	case said == "unexpected EOF":
		return h.early()
	case said == "unterminated string literal":
		return h.unclosedText()
	case strings.HasPrefix(said, "invalid escape sequence"):
		return h.wrong(at, "write the backslash twice: "+strings.ReplaceAll(parse.Token, `\`, `\\`), "jq has no escape %s in text", parse.Token)
	}
	return h.unexpected()
}

// hinter examines the tokens around the position at which the parser failed.
type hinter struct {
	src   string
	words []token
	word  int // index of the token that the parser did not expect
}

func (h *hinter) wrong(at int, suggestion, format string, args ...any) error {
	return &SyntaxError{
		Offset: at, Message: fmt.Sprintf(format, args...), Suggestion: suggestion,
		character: utf8.RuneCountInString(h.src[:at]) + 1,
	}
}

// text returns the token at a position relative to the unexpected one; "" beyond the ends.
func (h *hinter) text(from int) string {
	if i := h.word + from; i >= 0 && i < len(h.words) {
		return h.words[i].text
	}
	return ""
}

func (h *hinter) token(from int) token {
	if i := h.word + from; i >= 0 && i < len(h.words) {
		return h.words[i]
	}
	return token{start: len(h.src)}
}

// adjoins reports whether a token directly follows the one before it.
func (h *hinter) adjoins(from int) bool {
	return h.token(from).start > 0 && h.token(from-1).end() == h.token(from).start
}

// operand returns the value that a token begins (step 1) or ends (step -1), with its fields, indices
// and parentheses; or the token if it begins or ends none.
func (h *hinter) operand(from, step int) string {
	first := h.word + from
	if first < 0 || first >= len(h.words) {
		return ""
	}
	last, depth := first, 0
walk:
	for i := first; i >= 0 && i < len(h.words); i += step {
		t := h.words[i]
		opens, closes := strings.Contains("([", t.text), strings.Contains(")]", t.text)
		if step < 0 {
			opens, closes = closes, opens
		}
		switch {
		case opens:
			depth++
		case depth == 0 && (closes || t.kind == operatorToken && t.text != "."):
			break walk
		case closes:
			depth--
		}
		first, last = min(first, i), max(last, i)
		if depth == 0 && !h.adjoins(max(i, i+step)-h.word) {
			break
		}
	}
	return h.src[h.words[first].start:h.words[last].end()]
}

// early reports an expression that ends too early.
func (h *hinter) early() error {
	var open []token
	for i, t := range h.words {
		switch {
		case t.kind == stringToken:
		case t.text == "(" || t.text == "[" || t.text == "{" || t.kind == wordToken && t.text == "if":
			if t.text == "if" && i > 0 && h.words[i-1].text == "else" {
				return h.wrong(h.words[i-1].start, "write: if … then … elif … then … else … end", "`else if` is `elif` in jq")
			}
			open = append(open, t)
		case strings.Contains(")]}", t.text) || t.kind == wordToken && t.text == "end":
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		}
	}
	if len(open) == 0 {
		last := h.token(-1)
		if len(h.words) > 0 {
			last = h.words[len(h.words)-1]
		}
		return h.wrong(last.end(), "", "the expression ends too early: something is missing after %s", last.text)
	}
	t := open[len(open)-1]
	if t.text == "if" {
		return h.wrong(t.start, "write: if … then … else … end", "this `if` has no `end`")
	}
	return h.wrong(t.start, "close it with "+closer(t.text), "this %s is never closed", t.text)
}

func closer(opener string) string {
	return map[string]string{"(": ")", "[": "]", "{": "}"}[opener]
}

func (h *hinter) unclosedText() error {
	at := len(h.src)
	if i := strings.LastIndexByte(h.src, '"'); i >= 0 {
		at = i
	}
	for _, t := range h.words {
		if t.kind == stringToken && (len(t.text) == 1 || !strings.HasSuffix(t.text, `"`) && !strings.HasSuffix(t.text, `\(`)) {
			at = t.start
			break
		}
	}
	return h.wrong(at, `close it with "`, "the text that begins here is never closed")
}

var ternary = lazyregexp.New(`^([^?]+)\?([^?:]+):([^?:]+)$`)

// unexpected explains why a token cannot be at its position. For the syntax of other languages it
// suggests what to write in jq.
func (h *hinter) unexpected() error {
	t := h.token(0)
	was, next := h.text(-1), h.text(1)
	before := h.token(-1).start
	switch {
	case t.text == "=" && h.adjoins(0) && (was == "==" || was == "!="):
		return h.wrong(before, "write "+was, "jq has no operator %s=", was)
	case t.text == ":" && next == "=":
		return h.wrong(t.start, "to compare, write ==", "jq has no operator :=")
	case t.text == "=" && !h.adjoins(0) && (was == "<" || was == ">"):
		return h.wrong(before, "write "+was+"= without a space", "a space inside %s=", was)
	case t.text == "~":
		return h.wrong(t.start, `for a regular expression, write: .a | test("…")`, "jq has no operator ~")
	case t.text == "{" && was == "{":
		return h.wrong(before, "write ${ … } around the whole expression", "jq has no {{ }}")
	case t.text == ">" && h.adjoins(0) && was == "<":
		return h.wrong(before, "write !=", "jq has no operator <>")
	case t.text == ">" && h.adjoins(0) && (was == "=" || was == "-"):
		return h.wrong(before, "to compare, write >=; to pass a value on, write |", "jq has no operator %s>", was)
	case t.text == "&" && next == "&" && h.adjoins(1):
		return h.wrong(t.start, "write: and", "jq has no operator &&")
	case t.text == "&":
		return h.wrong(t.start, "to join texts, write +; for conditions, write and", "jq has no operator &")
	case t.text == "|" && was == "|" && h.adjoins(0):
		return h.wrong(before, "write: or", "jq has no operator ||")
	case t.text == "*" && was == "*" && h.adjoins(0), t.text == "^":
		return h.wrong(t.start, "write pow(.a; 2)", "jq has no operator for powers")
	case t.text == "%" && was == "%":
		return h.wrong(before, "write one %%", "jq has no operator %%%%")
	case t.text == "!":
		return h.negation(t, next)
	}
	return h.foreign(t, was, next)
}

func (h *hinter) negation(t token, next string) error {
	if next == "=" {
		return h.wrong(t.start, "write != without a space", "jq has no operator !")
	}
	suggestion := "write not after the value: .a | not"
	if operand := h.operand(1, 1); operand != "" {
		suggestion = "write: (" + operand + " | not)"
	}
	return h.wrong(t.start, suggestion, "jq has no operator !")
}

// foreign recognizes the quotes, calls and paths of other languages.
func (h *hinter) foreign(t token, was, next string) error {
	before := h.token(-1)
	switch {
	case was == "?" && h.text(-2) == "?":
		return h.wrong(h.token(-2).start, "write //, which replaces null and false with another value", "jq has no operator ??")
	case t.text == "'" || t.text == "`" || t.text == "‘" || t.text == "’" || t.text == "“" || t.text == "”":
		return h.quotes(t)
	case t.text == "$" && next == "{":
		return h.wrong(t.start, "write one ${ } around the whole expression", "a ${ } inside an expression")
	case t.text == "$" && (strings.HasPrefix(next, ".") || next == "["):
		return h.wrong(t.start, "begin with the dot: "+h.operand(1, 1), "in jq the data is the dot, not $")
	case t.text == "*" && was == "[" && next == "]":
		return h.wrong(before.start, "for all items, write []", "jq has no [*]")
	case t.text == "?" && was == "[":
		return h.wrong(before.start, "write: [] | select(…)", "jq has no filters in [? ]")
	case t.kind == numberToken && strings.HasPrefix(t.text, ".") && h.adjoins(0):
		return h.wrong(t.start, "write ["+t.text[1:]+"]", "the items of a list are not accessed with a dot")
	case t.kind == variableToken && was == ".":
		return h.wrong(before.start, "write ["+t.text+"]", "a member whose name is in a variable is not accessed with a dot")
	case t.text == ".." && h.adjoins(0):
		return h.wrong(t.start, "write one dot", "two dots in a row")
	case t.text == ")" && was == "(" && h.token(-2).kind == wordToken:
		return h.wrong(before.start, "write "+h.text(-2)+" without ()", "a function without arguments has no parentheses")
	case t.text == "(" && before.kind == fieldToken:
		return h.method(before)
	case t.text == "=" && slices.ContainsFunc(h.words[:h.word], func(t token) bool { return t.text == "{" }):
		return h.wrong(t.start, "write {name: value}", "in { } the name is followed by a colon")
	case t.text == ";":
		return h.wrong(t.start, "to pass a value on, write |", "jq has no statements: a ; separates the arguments of a function")
	case strings.ContainsAny(h.src, "?") && ternary().MatchString(h.src):
		m := ternary().FindStringSubmatch(h.src)
		return h.wrong(strings.IndexByte(h.src, '?'),
			fmt.Sprintf("write: if %s then %s else %s end", strings.TrimSpace(m[1]), strings.TrimSpace(m[2]), strings.TrimSpace(m[3])),
			"jq has no ? :")
	}
	return h.infix(t, was)
}

// infix recognizes words and comparisons between two values.
func (h *hinter) infix(t token, was string) error {
	comparison := []string{"==", "!=", "<", "<=", ">", ">="}
	switch lower := strings.ToLower(t.text); {
	case slices.Contains(comparison, t.text) && slices.ContainsFunc(h.words[:h.word], func(t token) bool { return slices.Contains(comparison, t.text) }):
		middle := h.operand(-1, -1)
		return h.wrong(t.start, fmt.Sprintf("join two with and: … and %s %s …", middle, t.text), "a comparison of three values")
	case t.kind == wordToken && lower != t.text && slices.Contains([]string{"and", "or", "if", "then", "else", "end"}, lower):
		return h.wrong(t.start, "write: "+lower, "jq has no %s", t.text)
	case t.kind == wordToken && slices.Contains([]string{"is", "eq", "equals"}, lower):
		return h.wrong(t.start, "write ==", "jq has no operator %s", t.text)
	case t.kind == wordToken && slices.Contains([]string{"gt", "lt", "ge", "le", "ne"}, lower):
		sign := map[string]string{"gt": ">", "lt": "<", "ge": ">=", "le": "<=", "ne": "!="}[lower]
		return h.wrong(t.start, "write "+sign, "jq has no operator %s", t.text)
	case t.kind == wordToken && was == "as":
		return h.wrong(t.start, "write as $"+t.text, "the name of a variable begins with $")
	case t.kind == wordToken && len(arities(t.text)) > 0 && h.word > 0:
		return h.wrong(t.start, fmt.Sprintf("write: %s | %s(%s)", cmp.Or(h.operand(-1, -1), "…"), t.text, cmp.Or(h.operand(1, 1), "…")),
			"a function cannot be between two values")
	case strings.Contains(")]}", t.text):
		return h.closing(t)
	case t.kind == stringToken && h.word > 0 && (h.token(-1).kind == stringToken || h.token(-1).kind == fieldToken):
		return h.wrong(t.start, "to join texts, write +", "an operator is missing between %s and %s", was, t.text)
	case was == "." && t.kind == wordToken && !h.adjoins(0):
		return h.wrong(h.token(-1).start, "write ."+t.text, "there is a space after the dot")
	case h.word >= len(h.words):
		return h.wrong(len(h.src), "", "the expression ends too early")
	case t.kind == operatorToken && strings.IndexFunc(t.text, unicode.IsLetter) == 0:
		return h.wrong(t.start, `quote names with other letters: ."…"`, "without quotes, a name has only the letters a to z, not %s", t.text)
	case h.word == 0 && (t.kind == operatorToken || t.text == "and" || t.text == "or"):
		return h.wrong(t.start, "", "something is missing before %s", t.text)
	case t.kind != operatorToken && h.word > 0 && (h.token(-1).kind == fieldToken || h.token(-1).kind == numberToken || strings.Contains(")]", was)):
		return h.wrong(t.start, "", "an operator is missing between %s and %s", was, t.text)
	}
	return h.wrong(t.start, "", "unexpected `%s`", t.text)
}

// closing reports an unmatched closing bracket.
func (h *hinter) closing(t token) error {
	var open []string
	for _, w := range h.words[:h.word] {
		switch {
		case w.kind == stringToken:
		case strings.Contains("([{", w.text):
			open = append(open, w.text)
		case strings.Contains(")]}", w.text) && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	switch {
	case len(open) == 0:
		return h.wrong(t.start, "remove it", "this %s closes nothing", t.text)
	case closer(open[len(open)-1]) != t.text:
		return h.wrong(t.start, "close "+open[len(open)-1]+" with "+closer(open[len(open)-1])+" first", "unexpected %s", t.text)
	case h.word > 0 && h.token(-1).kind == operatorToken:
		return h.wrong(t.start, "", "something is missing between %s and %s", h.text(-1), t.text)
	default:
		return h.wrong(t.start, "", "unexpected %s", t.text)
	}
}

// quotes reports kinds of quotes that jq does not have.
func (h *hinter) quotes(t token) error {
	rest := h.src[t.end():]
	suggestion := `write text in double quotes: "…"`
	if end := strings.IndexAny(rest, "'`’”“"); end >= 0 {
		suggestion = fmt.Sprintf("write: \"%s\"", rest[:end])
	}
	return h.wrong(t.start, suggestion, "jq writes text in double quotes only")
}

// method reports .value.function(…).
func (h *hinter) method(name token) error {
	function := strings.TrimPrefix(name.text, ".")
	value := cmp.Or(h.operand(-2, -1), ".")
	if h.word >= 2 && h.token(-2).end() != name.start {
		value = "."
	}
	meant := function
	if len(arities(function)) == 0 {
		meant = otherName(function)
	}
	switch {
	case meant == "":
		return h.wrong(name.start, fmt.Sprintf("to call a function of jq, write: %s | …", value), "%s is the member of an object: it cannot be called", name.text)
	case h.text(1) == ")" || slices.Contains(arities(meant), 0) && len(arities(meant)) == 1:
		return h.wrong(name.start, fmt.Sprintf("write: (%s | %s)", value, meant), "jq has no methods: a value goes to a function through |")
	default:
		return h.wrong(name.start, fmt.Sprintf("write: %s | %s(…)", value, meant), "jq has no methods: a value goes to a function through |")
	}
}
