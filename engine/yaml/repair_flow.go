package yaml

import (
	"slices"
	"strings"
)

// token is a part of a value in brackets: a bracket, a comma, a colon, text in quotes, an expression
// (its kind is $) or a word (its kind is w).
type token struct {
	kind           byte
	line, from, to int
	open           []token // the brackets around it, and the quote in which the text ends
	behind         bool    // it directly follows a value
}

// tokens returns the tokens of a value in brackets or quotes from a byte of a line on: up to its end,
// or the end of the last line.
func (r *repair) tokens(line, at, last int) []token {
	var out []token
	var open []token
	behind := false
	for ; line <= last; line, at = line+1, 0 {
		text := r.lines[line]
		r.work -= len(text)
		for at < len(text) && len(open) <= MaxDepth && r.work > 0 {
			t := token{kind: text[at], line: line, from: at, to: at + 1, open: open, behind: behind}
			switch t.kind {
			case ' ', '\t':
				at++
				continue
			case '#':
				if at == 0 || text[at-1] == ' ' {
					at = len(text)
					continue
				}
				t.kind, t.to = 'w', wordIn(text, at)
			case ',', ':':
			case '{', '[':
				open = append(slices.Clip(open), t)
			case '}', ']':
				if len(open) > 0 {
					open = open[:len(open)-1]
				}
			case '"', '\'':
				line, t.to = r.afterQuote(line, at, last)
				if line > last {
					t.open = append(slices.Clip(open), t)
					return append(out, t)
				}
				text = r.lines[line]
			default:
				t.kind, t.to = 'w', wordIn(text, at)
				if end := ClosingBrace(text[min(at+2, len(text)):]); end >= 0 && strings.HasPrefix(text[at:], "${") {
					t.kind, t.to = '$', at+2+end+1
				}
			}
			out = append(out, t)
			at, behind = t.to, !strings.ContainsRune(",:{[", rune(t.kind))
			if len(open) == 0 {
				return out
			}
		}
	}
	return out
}

// afterQuote returns the line on which text in quotes ends, and the index after it. The line is greater
// than last if it does not end until there.
func (r *repair) afterQuote(line, at, last int) (endLine, end int) {
	quote := r.lines[line][at : at+1]
	if end := QuoteEnd(r.lines[line], at); end >= 0 {
		return line, end + 1
	}
	for line++; line <= last; line++ {
		if end := QuoteEnd(quote+r.lines[line], 0); end >= 0 {
			return line, end
		}
	}
	return line, len(r.lines[line-1])
}

// wordIn returns the end of the unquoted word at an index in brackets.
func wordIn(text string, at int) int {
	for at++; at < len(text) && strings.IndexByte(",[]{}", text[at]) < 0; at++ {
		if text[at] == ':' && (at+1 == len(text) || strings.IndexByte(" \t,[]{}", text[at+1]) >= 0) || text[at] == '#' && text[at-1] == ' ' {
			break
		}
	}
	return len(strings.TrimRight(text[:at], " \t"))
}

// closed returns the index after a value in brackets that ends on its first line; otherwise the length
// of the line.
func (r *repair) closed(line, at int) int {
	tokens := r.tokens(line, at, line)
	if len(tokens) == 0 {
		return len(r.lines[line])
	}
	if last := tokens[len(tokens)-1]; len(last.open) == 1 && (last.kind == '}' || last.kind == ']') {
		return last.to
	}
	return len(r.lines[line])
}

func closer(bracket byte) string { return map[byte]string{'{': "}", '[': "]"}[bracket] }

// brackets corrects the mistakes on a line inside brackets.
func (r *repair) brackets(line int) []fix {
	var out []fix
	for start := line; start >= max(0, line-lookBack) && out == nil && r.work > 0; start-- {
		text := r.lines[start]
		from := entryOf(text).value
		if from >= len(text) || text[from] != '{' && text[from] != '[' {
			continue
		}
		for _, t := range r.tokens(start, from, line) {
			if t.line == line {
				out = append(out, r.inBrackets(t)...)
			}
		}
	}
	return out
}

// inBrackets returns the possible corrections of a token.
func (r *repair) inBrackets(t token) (out []fix) {
	text := r.lines[t.line]
	word := text[t.from:min(t.to, len(text))]
	if t.behind && !strings.ContainsRune(",:}]", rune(t.kind)) {
		from := t.from
		if from > 0 && text[from-1] == ' ' {
			from--
		}
		out = append(out, replacing(t.line, from, t.from, ",", t.from, "write a comma before it", "a comma is missing before this"))
	}
	switch t.kind {
	case '}', ']':
		if len(t.open) == 0 {
			break
		}
		o := t.open[len(t.open)-1]
		if want := closer(o.kind); want != word {
			unclosed := replacing(t.line, t.from, t.from, want, 0, "close it with "+want, "this %c is never closed", o.kind)
			unclosed.line, unclosed.offset = o.line, o.from
			out = append(out, unclosed,
				replacing(t.line, t.from, t.to, want, t.from, "write "+want, "the %c of line %d is closed with %c", o.kind, o.line+1, t.kind))
		}
	case '"', '\'':
		out = append(out, badEscape(t.line, t.from, word)...)
		opened := strings.HasPrefix(strings.TrimLeft(word[1:], " "), "${") && !HasClosingBrace(word)
		if t.to >= len(text) || strings.IndexByte(" \t,:]}", text[t.to]) >= 0 && !opened {
			break
		}
		message, suggestion := "a double quote inside double quotes", "put single quotes around it: "
		if t.kind == '\'' {
			message, suggestion = "a single quote inside single quotes", "write it twice: "
		}
		last := t.to
		if opened {
			dollar := t.from + strings.Index(word, "${") + 2
			last = dollar + ClosingBrace(text[dollar:]) + 1
		}
		for ; last < len(text); last++ { // each may be the end
			if text[last] == t.kind && (last+1 == len(text) || strings.IndexByte(" \t,:]}", text[last+1]) >= 0) {
				value := text[t.from+1 : last]
				out = append(out, quoting(t.line, t.from, last+1, value, t.to-1, suggestion+InSingleQuotes(value), "%s", message))
			}
		}
	case '$':
		o := t.open[len(t.open)-1].kind
		out = append(out, quoting(t.line, t.from, t.to, word, t.from, "quote it: "+InSingleQuotes(word), "an expression inside %c %s needs quotes", o, closer(o)))
	case 'w':
		if strings.IndexByte("@`%*", word[0]) >= 0 {
			out = append(out, badStart(t.line, t.from, word)...)
		}
	}
	return out
}

// unclosed corrects a quote or brackets that begin on line first and that were still open at the start
// of the line where the parser stopped. The correction is certain if they extend beyond the map or list
// that contains them.
func (r *repair) unclosed(stopped int) (possible []fix, first int, sure bool) {
	for _, last := range []int{stopped, stopped - 1, stopped - 2} {
		if !r.inside(last) {
			continue
		}
		first = last
		for first > max(0, last-lookBack) && r.inside(first-1) {
			first--
		}
		e := entryOf(r.lines[first])
		for end := first + 1; end <= min(last+1, len(r.lines)-1); end++ {
			if r.leaves(end, e.base()) {
				possible = r.closing(first, e.value, end-1)
				return possible, first, len(possible) > 0
			}
		}
		if last == len(r.lines)-1 {
			return r.closing(first, e.value, last), first, false
		}
	}
	return nil, 0, false
}

// inside reports whether the text up to a line ends in quotes or brackets.
func (r *repair) inside(last int) bool {
	if last < 0 || r.work < 0 {
		return false
	}
	lines := r.lines[:last+1]
	_, stop, err := r.parse(lines, size(lines[:last]))
	if err == nil || stop < size(lines) {
		return false
	}
	_, said := yamlError(err)
	return strings.Contains(said, "unexpected end of stream") || strings.Contains(said, "expected ',' or") || strings.Contains(said, "expected node content")
}

// leaves reports whether a line belongs to the map or list around a value whose key is at a column.
func (r *repair) leaves(line, column int) bool {
	text := r.lines[line]
	trimmed := strings.TrimSpace(text)
	return indentOf(text) <= column && structural().MatchString(text) && trimmed[0] != '"'
}

// closing closes what is open at the end of a value, which begins at a byte of its first line.
func (r *repair) closing(first, at, last int) []fix {
	tokens := r.tokens(first, at, last)
	if len(tokens) == 0 {
		return nil
	}
	t := tokens[len(tokens)-1]
	open := t.open
	if t.kind == '{' || t.kind == '[' {
		open = append(slices.Clip(open), t)
	}
	if t.kind == '}' || t.kind == ']' {
		open = open[:max(0, len(open)-1)]
	}
	if len(open) == 0 {
		return nil
	}
	o := open[len(open)-1]
	if text := r.lines[o.line]; closer(o.kind) == "" {
		end, suggestion := len(strings.TrimRight(text, " \t")), "close it: "+Short(strings.TrimSpace(text[o.from:]))+string(o.kind)
		if len(open) > 1 {
			end, suggestion = len(strings.TrimRight(text, " \t,}]")), "close it with "+string(o.kind)
		}
		return []fix{replacing(o.line, end, end, string(o.kind), o.from, suggestion, "this quote is never closed")}
	}
	var closers strings.Builder
	for _, o := range slices.Backward(open) {
		closers.WriteString(closer(o.kind))
	}
	end := t.to
	if t.kind == ',' {
		end = t.from
	}
	f := replacing(t.line, end, len(r.lines[t.line]), closers.String(), o.from, "close it with "+closer(o.kind), "this %c is never closed", o.kind)
	f.line = o.line
	return []fix{f}
}
