package yaml

import "strings"

// HasClosingBrace reports whether the first ${ of src has a closing brace.
func HasClosingBrace(src string) bool {
	_, rest, found := strings.Cut(src, "${")
	return found && ClosingBrace(rest) >= 0
}

// ClosingBrace returns the index of the } that ends an expression, or -1. It skips braces in
// the expression's strings and objects, but not in comments.
func ClosingBrace(src string) int {
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
