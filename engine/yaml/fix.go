package yaml

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/excerpt"
)

// The YAML parser stops at its first error and reports at most its line. Text that it rejects is
// therefore scanned line by line for common mistakes. Each is corrected in a copy with the same lines,
// which is parsed instead, so that all mistakes are reported, including those in the workflow itself.

// yamlMistake is one mistake in the YAML of a document.
type yamlMistake struct {
	Pos
	message, suggestion string
}

// shift records that a line of the copy is longer or shorter than in the document.
type shift struct{ column, by int } // the text from column on has moved by this many characters

// fixer corrects the YAML of a document where it can.
type fixer struct {
	lines    []string // lines of the copy
	keys     []string
	levels   []level // the open maps and lists, outermost first
	mistakes []yamlMistake
	shifts   map[int][]shift
	vague    map[int]bool // lines that are uncertain after a fix: no further mistakes are reported there
	except   map[Pos]bool // mistakes that must not be corrected

	tabs     int // number of lines indented with tabs
	firstTab int // index of the mistake that reports them
	indented reindentation
}

// level is a map or list that is not yet complete.
type level struct {
	indent int
	list   bool
	line   int  // line of its last key or item
	open   bool // that key or item has no value yet
}

// reindentation shifts a block whose indentation does not match the lines around it.
type reindentation struct {
	from, by int // lines indented by at least from columns are shifted by this many
	active   bool
}

const (
	maxFixes  = 30
	lookAhead = 1000      // number of lines to search for the end of a quote or a brace
	maxProven = 128 << 10 // largest text in bytes for which neededFixes runs
)

// fixYAML scans text and corrects its mistakes, except those at some positions. keys are the words
// after which a colon may be missing.
func fixYAML(source []byte, keys []string, except map[Pos]bool) *fixer {
	fx := &fixer{keys: keys, shifts: map[int][]shift{}, vague: map[int]bool{}, except: except}
	for line := range strings.Lines(string(source)) {
		fx.lines = append(fx.lines, strings.TrimRight(line, "\r\n"))
	}
	for i := 0; i < len(fx.lines) && len(fx.mistakes) < maxFixes; i++ {
		i = fx.line(i)
	}
	if fx.tabs > 1 {
		fx.mistakes[fx.firstTab].suggestion = fmt.Sprintf("replace the tab with spaces, here and on %s below", plural(fx.tabs-1, "line"))
	}
	return fx
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (fx *fixer) text() []byte { return []byte(strings.Join(fx.lines, "\n") + "\n") }

// found records a mistake, and reports whether to correct it.
func (fx *fixer) found(line, offset int, suggestion, format string, args ...any) bool {
	s := yamlMistake{fx.pos(line, offset), fmt.Sprintf(format, args...), suggestion}
	if fx.except[s.Pos] {
		return false
	}
	if !slices.ContainsFunc(fx.mistakes, func(o yamlMistake) bool { return o.Pos == s.Pos }) {
		fx.mistakes = append(fx.mistakes, s)
	}
	return true
}

// pos returns the position in the document of a byte offset in a line of the copy.
func (fx *fixer) pos(line, offset int) Pos {
	text := fx.lines[line]
	column := 1 + utf8.RuneCountInString(text[:min(offset, len(text))])
	return Pos{line + 1, fx.original(line+1, column)}
}

// original converts a column in the copy to one in the document.
func (fx *fixer) original(line, column int) int {
	for _, s := range slices.Backward(fx.shifts[line]) {
		if column >= s.column+max(s.by, 0) {
			column -= s.by
		} else if column > s.column {
			column = s.column
		}
	}
	return max(column, 1)
}

// replace replaces part of a line.
func (fx *fixer) replace(line, from, to int, with string) {
	text := fx.lines[line]
	column := 1 + utf8.RuneCountInString(text[:from])
	if by := utf8.RuneCountInString(with) - utf8.RuneCountInString(text[from:to]); by != 0 {
		fx.shifts[line+1] = append(fx.shifts[line+1], shift{column, by})
	}
	fx.lines[line] = text[:from] + with + text[to:]
}

// quoteValue puts a value into single quotes.
func (fx *fixer) quoteValue(line, from, to int, value string) {
	fx.replace(line, from, to, "'"+strings.ReplaceAll(value, "'", "''")+"'")
}

// resolve sets the positions of the copy's nodes to those in the document.
func (fx *fixer) resolve(n *yaml3.Node) {
	n.Column = fx.original(n.Line, n.Column)
	for _, child := range n.Content {
		fx.resolve(child)
	}
}

var (
	listItem      = regexp.MustCompile(`^-(\s+|$)`)
	tabBehindDash = regexp.MustCompile(`^-[ ]*\t\s*`)
	plainKey      = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#\[\]{},&*!|>%@` + "`" + `?:-][^#]*?|-[^\s#:]+?)\s*:(\s+|$)`)
	tightKey      = regexp.MustCompile(`^([A-Za-z_][\w-]*):([^\s/].*)$`)
	tightFlow     = regexp.MustCompile(`^([A-Za-z_][\w-]*):([{\["'].*)$`)
	tightItem     = regexp.MustCompile(`^-[A-Za-z_"']`)
	loneWord      = regexp.MustCompile(`^([A-Za-z_][\w-]*)(\s*)$`)
	twoWords      = regexp.MustCompile(`^([A-Za-z_]\w*)(\s+)\S`)
	blockText     = regexp.MustCompile(`^[|>][-+0-9]*\s*(#.*)?$`)
	structural    = regexp.MustCompile(`^\s*(-\s+)*("[^"]*"|'[^']*'|[A-Za-z_][\w-]*)\s*:(\s|$)|^\s*-\s`)
	escapes       = regexp.MustCompile(`\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0abtnvfre "/\\N_LP\t]|$)`)
)

// line scans the element that begins on a line, and returns its last line.
func (fx *fixer) line(i int) int {
	text := fx.lines[i]
	switch trimmed := strings.TrimSpace(text); {
	case trimmed == "" || trimmed[0] == '#' || strings.HasPrefix(text, "%"):
		return i
	case text == "---" || strings.HasPrefix(text, "--- ") || text == "...":
		fx.levels = nil
		return i
	case strings.HasPrefix(text, "<<<<<<< ") || strings.HasPrefix(text, ">>>>>>> ") || text == "=======":
		if fx.found(i, 0, "keep one of the two versions, and remove this line", "an unresolved merge conflict of git") {
			fx.lines[i] = "#" + text[1:]
		}
		return i
	}
	at := fx.indentation(i)
	if at < 0 {
		return i
	}
	return fx.content(i, fx.place(i, at))
}

// indentation corrects the white space at the start of a line.
func (fx *fixer) indentation(i int) int {
	text := fx.lines[i]
	at := len(text) - len(strings.TrimLeft(text, " \t\u00a0\u3000"))
	space := text[:at]
	switch {
	case strings.Contains(space, "\t"):
		s := yamlMistake{fx.pos(i, strings.IndexByte(space, '\t')), "YAML is indented with spaces, this is a tab", "replace the tab with spaces"}
		if fx.except[s.Pos] {
			return -1
		}
		fx.vague[i+1] = true
		if fx.tabs++; fx.tabs == 1 {
			fx.firstTab = len(fx.mistakes)
			fx.mistakes = append(fx.mistakes, s)
		}
		width := fx.tabWidth(space, listItem.MatchString(text[at:]))
		fx.replace(i, 0, at, strings.Repeat(" ", width))
		return width
	case strings.ContainsAny(space, "\u00a0\u3000"):
		if fx.found(i, strings.IndexAny(space, "\u00a0\u3000"), "replace it with a space", "this is another kind of space") {
			width := utf8.RuneCountInString(space)
			fx.lines[i] = strings.Repeat(" ", width) + text[at:]
			return width
		}
	}
	return at
}

// tabWidth returns the indentation that white space with tabs probably stands for.
func (fx *fixer) tabWidth(space string, item bool) int {
	fallback := 0
	for _, width := range []int{2, 4, 8, 1} {
		indent := len(strings.ReplaceAll(space, "\t", strings.Repeat(" ", width)))
		if fallback == 0 {
			fallback = indent
		}
		if slices.ContainsFunc(fx.levels, func(l level) bool { return l.indent == indent && l.list == item }) {
			return indent
		}
	}
	if fx.opened() {
		return fx.top().indent + 2
	}
	return fallback
}

// opened reports whether the line above is a key or an item without a value yet.
func (fx *fixer) opened() bool { return len(fx.levels) > 0 && fx.top().open }

func (fx *fixer) top() *level { return &fx.levels[len(fx.levels)-1] }

// place finds the map or list that a line belongs to by its indentation. A line that
// belongs to none is reindented like the lines around it.
func (fx *fixer) place(i, at int) int {
	if fx.indented.active && at >= fx.indented.from {
		fx.replace(i, 0, at, strings.Repeat(" ", max(0, at+fx.indented.by)))
		at = max(0, at+fx.indented.by)
	} else {
		fx.indented.active = false
	}
	if len(fx.levels) == 0 {
		return at
	}
	item := listItem.MatchString(fx.lines[i][at:])
	above := fx.levels
	kept := len(fx.levels)
	for kept > 0 && fx.levels[kept-1].indent > at {
		kept--
	}
	deepest := len(above) - 1
	switch {
	case kept > 0 && above[kept-1].indent == at && above[kept-1].list && !item &&
		(kept == 1 || above[kept-2].indent < at) && !tightItem.MatchString(fx.lines[i][at:]) && plainKey.MatchString(fx.lines[i][at:]):
		if fx.found(i, at, "put `- ` before it, or indent it further", "this line is among the items of a list, but has no `- `") {
			fx.replace(i, at, at, "- ")
			fx.indented = reindentation{from: at + 1, by: 2, active: true}
		}
	case kept > 0 && above[kept-1].indent == at:
		// A list may have the same indentation as its key.
	case kept == len(above) && above[deepest].open:
	case kept == len(above):
		// Deeper than a key that already has a value: more of that value, or a mistake.
		if !structural.MatchString(fx.lines[i]) {
			return at
		}
		return fx.reindent(i, at, above[deepest].indent,
			fmt.Sprintf("indent it like line %d, or remove the value there", above[deepest].line),
			fmt.Sprintf("this line is indented deeper than line %d, which already has a value", above[deepest].line))
	default:
		// Between two levels: it belongs to one of them.
		return fx.between(i, at, above[max(kept-1, 0):], item)
	}
	fx.levels = fx.levels[:kept]
	return at
}

// between reindents a line to the nearest of the levels around it.
func (fx *fixer) between(i, at int, choices []level, item bool) int {
	fits := slices.DeleteFunc(slices.Clone(choices), func(l level) bool { return l.list != item })
	if len(fits) == 0 {
		fits = choices
	}
	best := slices.MinFunc(fits, func(a, b level) int {
		return cmp.Or(cmp.Compare(distance(a.indent, at), distance(b.indent, at)), cmp.Compare(b.indent, a.indent))
	})
	var others []string
	for _, l := range fits {
		if s := strconv.Itoa(l.indent); len(fits) <= 3 || l.indent == best.indent {
			others = append(others, s)
		}
	}
	return fx.reindent(i, at, best.indent, fmt.Sprintf("indent it by %d, like line %d", best.indent, best.line),
		fmt.Sprintf("this line is indented by %s, the lines that it can belong to by %s", plural(at, "space"), strings.Join(slices.Compact(others), " or ")))
}

func distance(a, b int) int { return max(a-b, b-a) }

// reindent moves a line and the block below it to another indentation.
func (fx *fixer) reindent(i, at, to int, suggestion, message string) int {
	if !fx.found(i, at, suggestion, "%s", message) {
		return at
	}
	fx.replace(i, 0, at, strings.Repeat(" ", to))
	fx.indented = reindentation{from: at, by: to - at, active: true}
	kept := len(fx.levels)
	for kept > 0 && fx.levels[kept-1].indent > to {
		kept--
	}
	fx.levels = fx.levels[:kept]
	return to
}

// enter records a key or an item at an indentation.
func (fx *fixer) enter(i, indent int, list bool) {
	kept := len(fx.levels)
	for kept > 0 && (fx.levels[kept-1].indent > indent || fx.levels[kept-1].indent == indent && fx.levels[kept-1].list && !list) {
		kept--
	}
	fx.levels = fx.levels[:kept]
	if kept == 0 || fx.top().indent < indent || fx.top().list != list {
		fx.levels = append(fx.levels, level{indent: indent, list: list})
	}
	fx.top().line, fx.top().open = i+1, true
}

// content scans a line from its first character after the indentation.
func (fx *fixer) content(i, at int) int {
	if tab := tabBehindDash.FindStringIndex(fx.lines[i][at:]); tab != nil &&
		fx.found(i, at+1, "replace the tab with a space", "a tab after the dash of a list item") {
		fx.replace(i, at+1, at+tab[1], " ")
	}
	for listItem.MatchString(fx.lines[i][at:]) {
		fx.enter(i, at, true)
		rest := fx.lines[i][at+1:]
		next := at + 1 + len(rest) - len(strings.TrimLeft(rest, " \t"))
		if strings.TrimSpace(rest) == "" || strings.TrimSpace(rest)[0] == '#' {
			return i
		}
		at = next
	}
	if tight := fx.lines[i][at:]; tightItem.MatchString(tight) && (fx.listAt(at) || fx.opened() && plainKey.MatchString(tight)) &&
		fx.found(i, at, "write a space after the dash: - "+excerpt.Of(tight[1:], 60), "a list item begins with a dash and a space") {
		fx.replace(i, at, at+1, "- ")
		return fx.content(i, at)
	}
	if tight := tightFlow.FindStringSubmatch(fx.lines[i][at:]); tight != nil && fx.found(i, at+len(tight[1]),
		"write a space after the colon: "+excerpt.Of(tight[1]+": "+tight[2], 60), "a key is followed by a colon and a space") {
		fx.replace(i, at+len(tight[1]), at+len(tight[1])+1, ": ")
	}
	key := plainKey.FindStringSubmatchIndex(fx.lines[i][at:])
	if key == nil {
		key = fx.keyless(i, at)
	}
	if key == nil {
		if len(fx.levels) > 0 {
			fx.top().open = false
		}
		return fx.value(i, at, at)
	}
	fx.enter(i, at, false)
	from := at + key[1]
	if rest := strings.TrimSpace(fx.lines[i][from:]); rest == "" || rest[0] == '#' {
		return i
	}
	fx.top().open = false
	return fx.value(i, from, at)
}

// listAt reports whether a list with items at an indentation is open.
func (fx *fixer) listAt(indent int) bool {
	return slices.ContainsFunc(fx.levels, func(l level) bool { return l.list && l.indent == indent })
}

// keyless corrects a line that should have a key but has none.
func (fx *fixer) keyless(i, at int) []int {
	rest := fx.lines[i][at:]
	find := func() []int { return plainKey.FindStringSubmatchIndex(fx.lines[i][at:]) }
	if colon := strings.Index(rest, "："); colon > 0 && fx.found(i, at+colon, "write a plain : and a space", "this is another kind of colon") {
		fx.replace(i, at+colon, at+colon+len("："), ": ")
		return find()
	}
	if tight := tightKey.FindStringSubmatch(rest); tight != nil && fx.expectsKey(i, at) {
		colon := at + len(tight[1])
		if fx.found(i, colon, "write a space after the colon: "+excerpt.Of(tight[1]+": "+tight[2], 60), "a key is followed by a colon and a space") {
			fx.replace(i, colon, colon+1, ": ")
			return find()
		}
	}
	if !fx.expectsKey(i, at) {
		return nil
	}
	word := loneWord.FindStringSubmatch(rest)
	if word == nil {
		if word = twoWords.FindStringSubmatch(rest); word == nil || !slices.Contains(fx.keys, word[1]) {
			return nil
		}
	}
	end := at + len(word[1])
	if fx.found(i, end, "write: "+word[1]+":", "the colon after %s is missing", Quote(word[1])) {
		fx.replace(i, end, end+min(1, len(word[2])), ": ")
		return find()
	}
	return nil
}

// SpacedKey inserts the missing space into text that was meant as a key and a value, such as a:1. It
// returns "" for any other text.
func SpacedKey(text string) string {
	if tight := tightKey.FindStringSubmatch(text); tight != nil && !strings.ContainsAny(text, "\n") {
		return excerpt.Of(tight[1]+": "+tight[2], 60)
	}
	if key, value, wide := strings.Cut(text, "："); wide && !strings.ContainsAny(text, "\n") {
		return excerpt.Of(key+": "+strings.TrimSpace(value), 60)
	}
	return ""
}

// expectsKey reports whether a key must be at this position: next to other keys, or above
// a block.
func (fx *fixer) expectsKey(i, at int) bool {
	for _, l := range fx.levels {
		if l.indent == at && !l.list {
			return true
		}
	}
	for j := i + 1; j < min(len(fx.lines), i+lookAhead); j++ {
		next := fx.lines[j]
		if trimmed := strings.TrimSpace(next); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		indent := len(next) - len(strings.TrimLeft(next, " \t"))
		return indent >= at && structural.MatchString(next)
	}
	return false
}

// value scans the value at an offset of a line; base is the column of its key.
func (fx *fixer) value(i, from, base int) int {
	text := fx.lines[i]
	from += len(text[from:]) - len(strings.TrimLeft(text[from:], " \t"))
	if from >= len(text) {
		return i
	}
	if text[from] == '&' || text[from] == '!' && !strings.HasPrefix(text[from:], "!=") {
		// An anchor or a tag precedes the value.
		if space := strings.IndexByte(text[from:], ' '); space > 0 {
			return fx.value(i, from+space, base)
		}
		if text[from] == '&' && len(fx.levels) > 0 {
			fx.top().open = true
		}
		return i
	}
	rest := text[from:]
	switch rest[0] {
	case '|', '>':
		return fx.block(i, from, base)
	case '"', '\'':
		return fx.quoted(i, from, base)
	case '{', '[':
		return fx.flow(i, from, base)
	case '@', '`', '%', '*':
		if value := bare(rest); fx.badStart(i, from, value) {
			fx.quoteValue(i, from, from+len(value), value)
		}
		return i
	case '?':
		if strings.HasPrefix(rest, "? ") {
			fx.quotes(i, from, "quote it if it is text", "a value cannot begin with ? and a space")
			return i
		}
	case ',', ']', '}':
		fx.quotes(i, from, "quote it if it is text", "a value cannot begin with %c", rest[0])
		return i
	case '-':
		if listItem.MatchString(rest) && from > base {
			if fx.found(i, from, "begin the list on a line of its own, below the key", "a list cannot begin on the line of its key") {
				fx.lines[i] = text[:from] + "#" + text[from+1:]
				if len(fx.levels) > 0 {
					fx.top().open = true
				}
				fx.vague[i+1] = true
			}
			return i
		}
	}
	fx.plain(i, from)
	return i
}

// bare returns a value without its trailing comment.
func bare(value string) string {
	if comment := strings.Index(value, " #"); comment >= 0 {
		value = value[:comment]
	}
	return strings.TrimRight(value, " \t")
}

// quotes puts quotes around a value that needs them.
func (fx *fixer) quotes(i, from int, suggestion, format string, args ...any) {
	value := bare(fx.lines[i][from:])
	if fx.found(i, from, suggestion, format, args...) {
		fx.quoteValue(i, from, from+len(value), value)
	}
}

// plain corrects an unquoted value that contains a colon.
func (fx *fixer) plain(i, from int) {
	value := bare(fx.lines[i][from:])
	colon := strings.Index(value, ": ")
	if colon < 0 && strings.HasSuffix(value, ":") {
		colon = len(value) - 1
	}
	if colon < 0 {
		return
	}
	if fx.found(i, from+colon, "quote the value: "+InSingleQuotes(value), "a second `: ` in one line, in a value without quotes") {
		fx.quoteValue(i, from, from+len(value), value)
	}
}

// InSingleQuotes returns text in single quotes.
func InSingleQuotes(value string) string {
	return "'" + strings.ReplaceAll(excerpt.Of(value, 200), "'", "''") + "'"
}

var anchorName = regexp.MustCompile(`^\*([\w-]+)$`)

// block skips the lines of a block scalar, which begins with | or >.
func (fx *fixer) block(i, from, base int) int {
	if !blockText.MatchString(fx.lines[i][from:]) {
		fx.quotes(i, from, "begin the text on the next line, indented", "text after %c begins on the next line", fx.lines[i][from])
		return i
	}
	last := i
	for j := i + 1; j < len(fx.lines); j++ {
		text := fx.lines[j]
		if strings.TrimSpace(text) == "" {
			continue
		}
		indent := len(text) - len(strings.TrimLeft(text, " "))
		if fx.indented.active && indent >= fx.indented.from {
			fx.replace(j, 0, indent, strings.Repeat(" ", max(0, indent+fx.indented.by)))
			indent = max(0, indent+fx.indented.by)
		}
		if indent <= base {
			break
		}
		last = j
	}
	return last
}

// quoted finds the end of a quoted value.
func (fx *fixer) quoted(i, from, base int) int {
	text := fx.lines[i]
	quote := text[from]
	end := QuoteEnd(text, from)
	if end < 0 {
		return fx.unclosedQuote(i, from, base)
	}
	rest := strings.TrimSpace(text[end+1:])
	if rest != "" && rest[0] != '#' && !strings.HasPrefix(rest, ":") {
		fx.innerQuote(i, from, end)
		return i
	}
	if quote == '"' {
		fx.escapes(i, from, end)
	}
	return i
}

// innerQuote corrects a quote inside a value in the same quotes.
func (fx *fixer) innerQuote(i, from, end int) {
	text := fx.lines[i]
	value := bare(text[from:])
	inner := strings.TrimPrefix(value, text[from:from+1])
	whole := strings.HasSuffix(inner, text[from:from+1])
	inner = strings.TrimSuffix(inner, text[from:from+1])
	suggestion := "put quotes around the whole value: " + InSingleQuotes(value)
	message := "the text in quotes ends here, but the line continues"
	switch {
	case whole && text[from] == '"':
		suggestion, message = "put single quotes around it: "+InSingleQuotes(inner), "a double quote inside double quotes"
	case whole:
		suggestion, message = "write it twice: "+InSingleQuotes(inner), "a single quote inside single quotes"
	default:
		inner = value
	}
	if fx.found(i, end, suggestion, "%s", message) {
		fx.quoteValue(i, from, from+len(value), inner)
	}
}

// escapes corrects unknown escapes in double quotes.
func (fx *fixer) escapes(i, from, end int) {
	text := fx.lines[i]
	for at := from + 1; at < end; at++ {
		if text[at] != '\\' {
			continue
		}
		if known := escapes.FindStringIndex(text[at:]); known != nil && known[0] == 0 {
			at++
			continue
		}
		inner := text[from+1 : end]
		_, size := utf8.DecodeRuneInString(text[at+1:])
		if fx.found(i, at, "put single quotes around it: "+InSingleQuotes(inner), "YAML has no escape %s in double quotes", text[at:at+1+size]) {
			fx.quoteValue(i, from, end+1, inner)
		}
		return
	}
}

// QuoteEnd returns the index of the quote that closes the one at from; -1 if none does.
func QuoteEnd[T string | []byte](text T, from int) int {
	for at := from + 1; at < len(text); at++ {
		switch {
		case text[from] == '"' && text[at] == '\\':
			at++
		case text[at] != text[from]:
		case text[from] == '\'' && at+1 < len(text) && text[at+1] == '\'':
			at++
		default:
			return at
		}
	}
	return -1
}

// unclosedQuote skips a quoted value that continues on further lines, or closes it if the
// next key begins before its end.
func (fx *fixer) unclosedQuote(i, from, base int) int {
	quote := fx.lines[i][from : from+1]
	for j := i + 1; j < min(len(fx.lines), i+lookAhead); j++ {
		text := fx.lines[j]
		indent := len(text) - len(strings.TrimLeft(text, " \t"))
		if structural.MatchString(text) && indent <= base {
			break
		}
		if end := QuoteEnd(quote+text, 0); end >= 0 {
			return j
		}
	}
	if fx.found(i, from, "close it: "+excerpt.Of(strings.TrimSpace(fx.lines[i][from:]), 100)+quote, "this quote is never closed") {
		fx.lines[i] = strings.TrimRight(fx.lines[i], " \t") + quote
	}
	return i
}
