package yaml

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// opener is an open { or [.
type opener struct {
	bracket      byte
	line, offset int
}

// flow scans a map in { } or a list in [ ], which may span several lines.
func (fx *fixer) flow(i, from, base int) int {
	f := &flowReader{fixer: fx, base: base}
	line, at := i, from
	for {
		next := f.token(line, at)
		switch {
		case f.given || len(f.open) > MaxDepth:
			return line
		case len(f.open) == 0:
			return f.behind(line, next, i, from)
		case next < len(fx.lines[line]):
			at = next
			continue
		}
		line++
		if line >= len(fx.lines) || line > i+lookAhead || f.leaves(line) {
			return f.unclosed(line - 1)
		}
		at = 0
	}
}

// flowReader is the scanner's position in a map or list in brackets.
type flowReader struct {
	*fixer

	base   int // column of the key whose value this is
	open   []opener
	valued bool // the previous token is a value: a comma or a colon must follow
	given  bool // the text is left to the parser, since it cannot be corrected here
}

// leaves reports whether a line belongs to the surrounding block, so the brackets were
// never closed.
func (f *flowReader) leaves(line int) bool {
	text := f.lines[line]
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] == '}' || trimmed[0] == ']' {
		return false
	}
	indent := len(text) - len(strings.TrimLeft(text, " \t"))
	return indent <= f.base && structural.MatchString(text) && trimmed[0] != '"'
}

// unclosed closes the open brackets at the end of a line.
func (f *flowReader) unclosed(line int) int {
	o := f.open[len(f.open)-1]
	if f.found(o.line, o.offset, "close it with "+closingOf(o.bracket), "this %c is never closed", o.bracket) {
		var closers strings.Builder
		for _, o := range slices.Backward(f.open) {
			closers.WriteString(closingOf(o.bracket))
		}
		f.lines[line] = strings.TrimRight(bareFlow(f.lines[line]), " \t,") + closers.String()
	}
	return line
}

// bareFlow returns a line without its trailing comment.
func bareFlow(text string) string {
	if before, _, found := strings.Cut(text, " #"); found && strings.Count(before, `"`)%2 == 0 {
		return before
	}
	return text
}

func closingOf(bracket byte) string {
	if bracket == '{' {
		return "}"
	}
	return "]"
}

// behind reports text after the last bracket.
func (f *flowReader) behind(line, at, first, from int) int {
	rest := strings.TrimSpace(f.lines[line][at:])
	if rest == "" || rest[0] == '#' || rest[0] == ':' {
		return line
	}
	if line != first {
		f.found(line, at, "", "the line continues after the closing bracket")
		return line
	}
	value := bare(f.lines[line][from:])
	suggestion := "quote it, if it is text: " + InSingleQuotes(value)
	if strings.ContainsAny(value, ".$") {
		suggestion = "quote the expression: " + InSingleQuotes("${ "+value+" }")
	}
	at += len(f.lines[line][at:]) - len(strings.TrimLeft(f.lines[line][at:], " \t"))
	if f.found(line, at, suggestion, "the line continues after the closing %s", f.lines[line][at-1-spaces(f.lines[line][:at]):at-spaces(f.lines[line][:at])]) {
		f.quoteValue(line, from, from+len(value), value)
		f.vague[line+1] = true
	}
	return line
}

// spaces returns the number of spaces at the end of text.
func spaces(text string) int { return len(text) - len(strings.TrimRight(text, " \t")) }

// token scans one token at an offset of a line, and returns the offset after it.
func (f *flowReader) token(line, at int) int {
	text := f.lines[line]
	for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	if at >= len(text) {
		return at
	}
	switch c := text[at]; c {
	case '#':
		return len(text)
	case ',', ':':
		f.valued = false
		return at + 1
	case '{', '[':
		at = f.comma(line, at)
		f.open = append(f.open, opener{c, line, at})
		f.valued = false
		return at + 1
	case '}', ']':
		return f.close(line, at)
	case '"', '\'':
		at = f.comma(line, at)
		f.valued = true
		return f.quote(line, at)
	default:
		at = f.comma(line, at)
		f.valued = true
		return f.word(line, at)
	}
}

// comma inserts a comma before a token that follows a value.
func (f *flowReader) comma(line, at int) int {
	if !f.valued || !f.found(line, at, "write a comma before it", "a comma is missing before this") {
		return at
	}
	if at > 0 && f.lines[line][at-1] == ' ' {
		f.lines[line] = f.lines[line][:at-1] + "," + f.lines[line][at:]
		return at
	}
	f.replace(line, at, at, ",")
	return at + 1
}

func (f *flowReader) close(line, at int) int {
	o := f.open[len(f.open)-1]
	if want := closingOf(o.bracket); f.lines[line][at:at+1] != want {
		outer := slices.ContainsFunc(f.open, func(o opener) bool { return closingOf(o.bracket) == f.lines[line][at:at+1] })
		outer = outer && closersIn(f.lines[line][at:]) < len(f.open)
		if outer && f.found(o.line, o.offset, "close it with "+want, "this %c is never closed", o.bracket) {
			f.replace(line, at, at, want)
		} else if !outer && f.found(line, at, "write "+want, "the %c of line %d is closed with %c", o.bracket, o.line+1, f.lines[line][at]) {
			f.replace(line, at, at+1, want)
		}
	}
	f.open = f.open[:len(f.open)-1]
	f.valued = true
	return at + 1
}

// closersIn counts the closing brackets in text.
func closersIn(text string) int { return strings.Count(text, "}") + strings.Count(text, "]") }

// badStart reports a word that cannot be a value because of its first character, and whether to
// correct it.
func (fx *fixer) badStart(line, at int, value string) bool {
	if value[0] != '*' {
		return fx.found(line, at, "quote it: "+InSingleQuotes(value), "a value cannot begin with %c", value[0])
	}
	name := anchorName.FindStringSubmatch(value)
	switch {
	case name == nil:
		return fx.found(line, at, "quote it: "+InSingleQuotes(value), "a value cannot begin with *, unless it is the name of an anchor")
	case fx.anchored(line, name[1]):
		return false
	}
	fx.vague[line+1] = true
	return fx.found(line, at, "define it above: &"+name[1]+"; or quote the value: "+InSingleQuotes(value), "there is no anchor &%s above", name[1])
}

// anchored reports whether an anchor with this name is defined up to a line.
func (fx *fixer) anchored(line int, name string) bool {
	return slices.ContainsFunc(fx.lines[:line+1], func(text string) bool { return strings.Contains(text, "&"+name) })
}

// quote scans a quoted string.
func (f *flowReader) quote(line, at int) int {
	text := f.lines[line]
	if end := QuoteEnd(text, at); end >= 0 {
		return f.inner(line, at, end)
	}
	for j := line + 1; j < min(len(f.lines), line+lookAhead) && !f.leaves(j); j++ {
		if QuoteEnd(text[at:at+1]+f.lines[j], 0) >= 0 {
			f.given = true // the parser handles quoted text over several lines
			return len(text)
		}
	}
	if f.found(line, at, "close it with "+text[at:at+1], "this quote is never closed") {
		end := strings.TrimRight(text, " \t,}]")
		f.replace(line, len(end), len(end), text[at:at+1])
		return len(end) + 1
	}
	f.given = true
	return len(text)
}

// inner corrects a double quote of an expression that ends the quoted string early.
func (f *flowReader) inner(line, at, end int) int {
	text := f.lines[line]
	inner := text[at+1 : end]
	if !strings.HasPrefix(strings.TrimSpace(inner), "${") || HasClosingBrace(inner) || text[at] != '"' {
		if text[at] == '"' {
			before := len(f.lines[line])
			f.escapes(line, at, end)
			end += len(f.lines[line]) - before
		}
		return end + 1
	}
	dollar := at + 1 + strings.Index(inner, "${")
	brace := ClosingBrace(text[dollar+2:])
	last := dollar + 2 + brace + 1
	if brace < 0 || last >= len(text) || text[last] != '"' ||
		!f.found(line, end, "put single quotes around it: "+InSingleQuotes(text[at+1:last]), "a double quote inside double quotes") {
		return end + 1
	}
	value := text[at+1 : last]
	f.quoteValue(line, at, last+1, value)
	return at + 2 + len(strings.ReplaceAll(value, "'", "''"))
}

// word scans an unquoted word. An expression must be quoted here.
func (f *flowReader) word(line, at int) int {
	text := f.lines[line]
	if strings.HasPrefix(text[at:], "${") {
		end := ClosingBrace(text[at+2:])
		if end < 0 {
			f.given = true
			return len(text)
		}
		value := text[at : at+2+end+1]
		if f.found(line, at, "quote it: "+InSingleQuotes(value), "an expression inside %c %s needs quotes", f.open[len(f.open)-1].bracket,
			closingOf(f.open[len(f.open)-1].bracket)) {
			f.quoteValue(line, at, at+len(value), value)
			return at + 2 + len(strings.ReplaceAll(value, "'", "''"))
		}
		return at + len(value)
	}
	if strings.IndexByte("@`%*", text[at]) >= 0 {
		value := strings.TrimSpace(text[at : at+strings.IndexAny(text[at:]+",", ",]}")])
		if f.badStart(line, at, value) {
			f.quoteValue(line, at, at+len(value), value)
			return at + len(value) + 2
		}
	}
	for at < len(text) && strings.IndexByte(",[]{}", text[at]) < 0 {
		if text[at] == ':' && (at+1 >= len(text) || strings.IndexByte(" \t,[]{}", text[at+1]) >= 0) {
			break
		}
		if text[at] == '#' && text[at-1] == ' ' {
			return len(text)
		}
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}
