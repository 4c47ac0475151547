package dsl

import (
	"strings"

	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/yaml"
)

// inside is the expression inside ${ }.
type inside struct {
	source string
	offset int  // byte offset of source in the string
	is     bool // the whole string is one expression
}

// whole extracts the expression from a string that consists only of ${ … }.
func whole(src string) inside {
	trimmed := strings.TrimSpace(src)
	if !strings.HasPrefix(trimmed, "${") || !strings.HasSuffix(trimmed, "}") {
		return inside{}
	}
	// "${ .a } and ${ .b }" is not one expression. A malformed one counts as an expression,
	// so that the compiler can report what is wrong.
	if end := yaml.ClosingBrace(trimmed[2:]); end >= 0 && 2+end != len(trimmed)-1 && strings.Contains(trimmed[2+end:], "${") {
		return inside{}
	}
	inner := trimmed[2 : len(trimmed)-1]
	source := strings.TrimSpace(inner)
	offset := strings.Index(src, "${") + 2 + len(inner) - len(strings.TrimLeft(inner, " \t\r\n"))
	return inside{source, offset, true}
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
			end = yaml.ClosingBrace(rest)
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

// jqString returns a string as a jq literal.
func jqString(s string) string { return string(canonical.AppendText(nil, s)) }
