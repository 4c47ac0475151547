package dsl

import (
	"bytes"
	"encoding/json"
	"strings"
)

// inside is the expression within ${ }.
type inside struct {
	source string
	offset int  // byte offset of source in the text
	is     bool // the whole text is one expression
}

// whole extracts the expression from text that is nothing but ${ … }.
func whole(src string) inside {
	trimmed := strings.TrimSpace(src)
	if !strings.HasPrefix(trimmed, "${") || !strings.HasSuffix(trimmed, "}") {
		return inside{}
	}
	// "${ .a } and ${ .b }" is not one expression. A malformed one counts as an expression,
	// so that the compiler can report what is wrong.
	if end := closing(trimmed[2:]); end >= 0 && 2+end != len(trimmed)-1 && strings.Contains(trimmed[2+end:], "${") {
		return inside{}
	}
	inner := trimmed[2 : len(trimmed)-1]
	source := strings.TrimSpace(inner)
	offset := strings.Index(src, "${") + 2 + len(inner) - len(strings.TrimLeft(inner, " \t\r\n"))
	return inside{source, offset, true}
}

// closes reports whether the first ${ of a text has a closing brace.
func closes(src string) bool {
	_, rest, found := strings.Cut(src, "${")
	return found && closing(rest) >= 0
}

// closing returns the index of the } that ends an expression, or -1. It skips braces in
// the expression's strings, objects and comments.
func closing(src string) int {
	depth := 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '"':
			end := stringEnd(src, i)
			if end < 0 {
				return -1
			}
			i = end
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// stringEnd returns the index of the quote that ends the string starting at start,
// skipping its \( ) interpolations, or -1.
func stringEnd(src string, start int) int {
	var parens []int // open parentheses within each enclosing \(
	inString := true
	for i := start + 1; i < len(src); i++ {
		c := src[i]
		switch {
		case inString && c == '\\':
			i++
			if i < len(src) && src[i] == '(' {
				parens, inString = append(parens, 0), false
			}
		case inString && c == '"':
			if len(parens) == 0 {
				return i
			}
			inString = false
		case inString:
		case c == '"':
			inString = true
		case c == '(':
			parens[len(parens)-1]++
		case c == ')' && parens[len(parens)-1] > 0:
			parens[len(parens)-1]--
		case c == ')':
			parens, inString = parens[:len(parens)-1], true
		}
	}
	return -1
}

// interpolation rewrites "Hello ${ .x }!" as the jq string "Hello \(.x)!". mixed reports
// whether there was anything to rewrite.
func interpolation(src string) (jq string, mixed bool) {
	if !strings.Contains(src, "${") {
		return "", false
	}
	var b strings.Builder
	b.WriteByte('"')
	for {
		before, rest, found := strings.Cut(src, "${")
		end := -1
		if found {
			end = closing(rest)
		}
		if end < 0 || strings.TrimSpace(rest[:end]) == "" {
			b.WriteString(unquoted(src))
			break
		}
		mixed = true
		b.WriteString(unquoted(before))
		b.WriteString(`\(` + strings.TrimSpace(rest[:end]) + `)`)
		src = rest[end+1:]
	}
	b.WriteByte('"')
	return b.String(), mixed
}

func unquoted(s string) string {
	q := jqString(s)
	return q[1 : len(q)-1]
}

// jqString returns a text as a jq string literal.
func jqString(s string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
