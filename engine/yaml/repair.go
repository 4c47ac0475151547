package yaml

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/lazyregexp"
)

// The YAML parser stops at its first error. Where it stopped, common corrections are tried on a copy
// of the text, and the one with which the parser gets furthest is kept, until it gets to the end. So
// all mistakes are reported, including those in the workflow itself.

// repair corrects the text of a document that the YAML parser rejects.
type repair struct {
	lines    []string // of the copy
	keys     []string // words after which a colon may be missing
	mistakes []Mistake
	shifts   map[int][]shift     // by line
	escapes  map[int][]rewritten // by line; from left to right
	vague    map[int]bool        // lines that are uncertain after a correction: no other mistakes are reported there
	work     int                 // number of bytes that may still be parsed
}

// shift records that a line of the copy is longer or shorter than in the document.
type shift struct{ column, by int } // the text from column on has moved by this many characters

// fix is a mistake at a place of the copy, and its correction.
type fix struct {
	line, offset        int
	message, suggestion string
	edits               []edit
	vague               []int // lines
}

// edit replaces a part of a line, in bytes.
type edit struct {
	line, from, to int
	with           string
}

// replacing returns the correction that replaces a part of a line; offset is where the mistake is.
func replacing(line, from, to int, with string, offset int, suggestion, format string, args ...any) fix {
	return fix{line, offset, fmt.Sprintf(format, args...), suggestion, []edit{{line, from, to, with}}, nil}
}

// quoting returns the correction that puts a part of a line into single quotes.
func quoting(line, from, to int, value string, offset int, suggestion, format string, args ...any) fix {
	return replacing(line, from, to, "'"+strings.ReplaceAll(value, "'", "''")+"'", offset, suggestion, format, args...)
}

const (
	maxFixes = 30
	maxWork  = 8 << 20 // bytes
	lookBack = 1000    // number of lines
)

func newRepair(source []byte, keys []string) *repair {
	r := &repair{keys: keys, shifts: map[int][]shift{}, escapes: map[int][]rewritten{}, vague: map[int]bool{}, work: maxWork}
	for line := range strings.Lines(string(source)) {
		r.lines = append(r.lines, strings.TrimRight(line, "\r\n"))
	}
	for i, text := range r.lines {
		if strings.HasPrefix(text, "<<<<<<< ") || strings.HasPrefix(text, ">>>>>>> ") || text == "=======" {
			r.apply(fix{
				line: i, message: "an unresolved merge conflict of git", suggestion: "keep one of the two versions, and remove this line",
				edits: []edit{{i, 0, 1, "#"}},
			})
		}
	}
	return r
}

// run corrects the text as far as it can. It returns the documents, or the error for what it could not
// correct and the index of the line.
func (r *repair) run() (documents []*yaml3.Node, line int, err error) {
	for {
		documents, stop, err := r.parse(r.lines, 0)
		if err == nil {
			for _, d := range documents {
				r.resolve(d)
			}
			return documents, 0, nil
		}
		line := lineAt(r.lines, stop)
		if at, said := yamlError(err); strings.Contains(said, "could not find expected ':'") {
			line = at - 1 // that of the key
		}
		f, ok := r.next(stop, line, err)
		if !ok || len(r.mistakes) >= maxFixes {
			return nil, line, err
		}
		r.apply(f)
	}
}

// parse parses lines. stop is the number of bytes that the parser had read when it failed, at most a few
// more than it needed. The first exact bytes are read in larger pieces, so a stop within them is inexact.
func (r *repair) parse(lines []string, exact int) (documents []*yaml3.Node, stop int, err error) {
	in := &byteReader{text: strings.Join(lines, "\n") + "\n", exact: exact}
	r.work -= len(in.text)
	documents, err = decode(in)
	return documents, in.at, err
}

// byteReader reads text one byte at a time so that it shows where the parser stopped.
type byteReader struct {
	text  string
	at    int
	exact int // the text before this index is read in larger pieces
}

func (r *byteReader) Read(to []byte) (int, error) {
	if r.at == len(r.text) {
		return 0, io.EOF
	}
	n := copy(to, r.text[r.at:min(max(r.at+1, r.exact), len(r.text))])
	r.at += n
	return n, nil
}

// lineAt returns the index of the line with the last byte that the parser needed.
func lineAt(lines []string, stop int) int {
	stop--
	for i, text := range lines {
		if stop -= len(text) + 1; stop < 0 {
			return i
		}
	}
	return len(lines) - 1
}

// next returns the correction with which the parser gets furthest beyond where it stopped with err.
func (r *repair) next(stop, line int, err error) (fix, bool) {
	possible, first, sure := r.unclosed(line)
	if sure {
		// Unless a quote inside quotes on the first line opened it.
		_, stop, _ := r.parse(r.edited(possible[0]), 0)
		f, ok := r.furthest(append(r.brackets(first), r.values(first)...), 0, lineAt(r.lines, stop), 0)
		if !ok {
			f = possible[0]
		}
		return f, true
	}
	exact := max(0, stop-1000)
	if strings.Contains(err.Error(), "cannot start any token") {
		// A tab is wrong, even if the next mistake is on the same line.
		if f, ok := r.furthest(r.blanks(line), exact, line, math.MaxInt); ok {
			return f, true
		}
	}
	around := []int{line} // also the lines above, and those on the way out that are not indented further
	for i, indent := line-1, indentOf(r.lines[line]); i >= max(0, line-lookBack) && len(around) < 6; i-- {
		if isBlank(r.lines[i]) {
			continue
		}
		if own := indentOf(r.lines[i]); own <= indent || len(around) < 3 {
			around, indent = append(around, i), min(indent, own)
		}
	}
	// If two are equally good, the first is better.
	for _, rule := range []func(int) []fix{r.blanks, r.colons, r.dashes, r.values, r.brackets} {
		for _, i := range around {
			possible = append(possible, rule(i)...)
		}
	}
	possible = append(possible, r.indentation(line)...)
	if len(around) > 1 && !strings.Contains(err.Error(), "could not find expected ':'") {
		possible = append(possible, r.indentation(around[1])...)
	}
	return r.furthest(possible, exact, line, size(r.lines)-stop)
}

// furthest returns the first correction with which the parser gets to the furthest line, if it gets
// beyond a line or at least leaves fewer bytes unread. Within a line it reads ahead.
func (r *repair) furthest(possible []fix, exact, line, unread int) (best fix, ok bool) {
	const plenty = 20 // lines
	for _, f := range possible {
		if r.work < 0 {
			break
		}
		lines := r.edited(f)
		_, stop, err := r.parse(lines, exact)
		if err == nil {
			return f, true
		}
		at := lineAt(lines, stop)
		moved := f.edits[0].from == 0 && f.edits[0].line == f.line
		if at > line+plenty {
			return f, true
		}
		if at > line || !ok && !moved && at == line && size(lines)-stop < unread {
			best, line, ok = f, at, true
		}
	}
	return best, ok
}

func size(lines []string) int {
	n := 0
	for _, text := range lines {
		n += len(text) + 1
	}
	return n
}

// edited returns the lines with a correction.
func (r *repair) edited(f fix) []string {
	lines := slices.Clone(r.lines)
	for _, e := range f.edits {
		lines[e.line] = lines[e.line][:e.from] + e.with + lines[e.line][e.to:]
	}
	return lines
}

// apply makes a correction, and records the mistake.
func (r *repair) apply(f fix) {
	r.mistakes = append(r.mistakes, Mistake{Pos: r.pos(f.line, f.offset), Message: f.message, Suggestion: f.suggestion})
	r.edit(f)
	for _, line := range f.vague {
		r.vague[line+1] = true
	}
}

func (r *repair) edit(f fix) {
	for _, e := range f.edits {
		text := r.lines[e.line]
		column := 1 + utf8.RuneCountInString(text[:e.from])
		if by := utf8.RuneCountInString(e.with) - utf8.RuneCountInString(text[e.from:e.to]); by != 0 {
			r.shifts[e.line+1] = append(r.shifts[e.line+1], shift{column, by})
		}
	}
	r.lines = r.edited(f)
}

// jsonEscapes matches the escapes of JSON. A pair of surrogates is one escape. So is \\, so that the
// character after it is not taken for one.
var jsonEscapes = lazyregexp.New(`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)`)

// rewritten is an escape that rewriteJSON has replaced.
type rewritten struct {
	column int // in the document
	by     int // number of characters by which the line has become longer
	before int // by of all escapes before it on the line
}

// rewriteJSON rewrites the escapes in JSON that the YAML parser does not accept: \/, surrogate pairs
// (\ud83d\ude00), and single surrogates, which become the replacement character.
func (r *repair) rewriteJSON() {
	for i, text := range r.lines {
		var out strings.Builder
		done, column, before := 0, 1, 0
		for _, at := range jsonEscapes().FindAllStringIndex(text, -1) {
			escape := text[at[0]:at[1]]
			var with string
			switch {
			case escape == `\/`:
				with = "/"
			case len(escape) > 2: // surrogates
				var s string
				_ = json.Unmarshal([]byte(`"`+escape+`"`), &s) // the expression matches nothing else
				c, _ := utf8.DecodeRuneInString(s)
				with = fmt.Sprintf(`\U%08X`, c)
			default:
				continue
			}
			column += utf8.RuneCountInString(text[done:at[0]])
			e := rewritten{column, len(with) - len(escape), before}
			r.escapes[i+1] = append(r.escapes[i+1], e)
			out.WriteString(text[done:at[0]] + with)
			done, column, before = at[1], column+len(escape), before+e.by
		}
		if done > 0 {
			r.lines[i] = out.String() + text[done:]
		}
	}
}

// pos returns the position in the document of a byte of the copy.
func (r *repair) pos(line, offset int) Pos {
	text := r.lines[line]
	return Pos{line + 1, r.original(line+1, 1+utf8.RuneCountInString(text[:min(offset, len(text))]))}
}

// original converts a column in the copy to one in the document.
func (r *repair) original(line, column int) int {
	for _, s := range slices.Backward(r.shifts[line]) {
		if column >= s.column+max(s.by, 0) {
			column -= s.by
		} else if column > s.column {
			column = s.column
		}
	}
	all := r.escapes[line]
	n := sort.Search(len(all), func(i int) bool { return column < all[i].column+all[i].before+max(all[i].by, 0) })
	if n > 0 {
		column -= all[n-1].before + all[n-1].by
	}
	if n < len(all) {
		column = min(column, all[n].column)
	}
	return max(column, 1)
}

// resolve sets the positions of the copy's nodes to those in the document.
func (r *repair) resolve(n *yaml3.Node) {
	n.Column = r.original(n.Line, n.Column)
	for _, child := range n.Content {
		r.resolve(child)
	}
}

var (
	plainKey   = lazyregexp.New(`^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#\[\]{},&*!|>%@` + "`" + `?:-][^#]*?|-[^\s#:]+?)\s*:(\s+|$)`)
	tightKey   = lazyregexp.New(`^([A-Za-z_][\w-]*):([^\s/].*)$`)
	tightFlow  = lazyregexp.New(`^([A-Za-z_][\w-]*):([{\["'].*)$`)
	tightItem  = lazyregexp.New(`^-[A-Za-z_"']`)
	loneWord   = lazyregexp.New(`^([A-Za-z_][\w-]*)(\s*)$`)
	twoWords   = lazyregexp.New(`^([A-Za-z_]\w*)(\s+)\S`)
	blockText  = lazyregexp.New(`^[|>][-+0-9]*\s*(#.*)?$`)
	properties = lazyregexp.New(`^([&!]\S*\s+)+`)
	structural = lazyregexp.New(`^\s*(-\s+)*("[^"]*"|'[^']*'|[A-Za-z_][\w-]*)\s*:(\s|$)|^\s*-\s`)
	anchorName = lazyregexp.New(`^\*([\w-]+)$`)
	escapes    = lazyregexp.New(`^\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0abtnvfre "/\\N_LP\t]|$)`)
)

// entry holds the offsets of the parts of a line.
type entry struct {
	dashes []int
	key    int // -1 if there is none
	body   int // of what follows the dashes
	value  int // of what follows the key, or else the dashes
}

func entryOf(text string) entry {
	e := entry{key: -1, body: indentOf(text)}
	for strings.HasPrefix(text[e.body:], "- ") || text[e.body:] == "-" {
		e.dashes = append(e.dashes, e.body)
		e.body += 1 + indentOf(text[e.body+1:])
	}
	e.value = e.body
	if key := plainKey().FindStringIndex(text[e.body:]); key != nil {
		e.key, e.value = e.body, e.body+key[1]
	}
	e.value += len(properties().FindString(text[e.value:]))
	return e
}

// base returns the offset of the key, or else of the last dash or the text.
func (e entry) base() int {
	if e.key < 0 && len(e.dashes) > 0 {
		return e.dashes[len(e.dashes)-1]
	}
	return e.body
}

func indentOf(text string) int { return len(text) - len(strings.TrimLeft(text, " \t")) }

func isBlank(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || text[0] == '#'
}

// blanks corrects tabs and unusual spaces.
func (r *repair) blanks(i int) []fix {
	text := r.lines[i]
	margin := func(text string) string { return text[:len(text)-len(strings.TrimLeft(text, " \t\u00a0\u3000"))] }
	indent := margin(text)
	if wide := strings.IndexAny(indent, "\u00a0\u3000"); wide >= 0 {
		width := utf8.RuneCountInString(indent)
		return []fix{replacing(i, 0, len(indent), strings.Repeat(" ", width), wide, "replace it with a space", "this is another kind of space")}
	}
	if tab := strings.IndexByte(text, '\t'); tab > 0 && strings.TrimSpace(text[:tab]) == "-" {
		width := len(text[tab:]) - len(strings.TrimLeft(text[tab:], " \t"))
		return []fix{replacing(i, tab, tab+width, " ", tab, "replace the tab with a space", "a tab after the dash of a list item")}
	}
	if !strings.Contains(indent, "\t") {
		return nil
	}
	var out []fix
	for _, width := range []int{2, 4, 8, 1} {
		f := fix{line: i, offset: strings.IndexByte(indent, '\t'), message: "YAML is indented with spaces, this is a tab", suggestion: "replace the tab with spaces"}
		for j, text := range r.lines[i:] {
			if indent := margin(text); strings.Contains(indent, "\t") {
				f.edits = append(f.edits, edit{i + j, 0, len(indent), strings.ReplaceAll(indent, "\t", strings.Repeat(" ", width))})
				f.vague = append(f.vague, i+j)
			}
		}
		if more := len(f.edits) - 1; more > 0 {
			f.suggestion += ", here and on " + plural(more, "line") + " below"
		}
		out = append(out, f)
	}
	return out
}

// colons corrects a key without a colon and a space.
func (r *repair) colons(i int) []fix {
	text := r.lines[i]
	e := entryOf(text)
	rest := text[e.body:]
	tight := tightFlow().FindStringSubmatch(rest)
	if tight == nil && e.key < 0 {
		tight = tightKey().FindStringSubmatch(rest)
	}
	if tight != nil {
		colon := e.body + len(tight[1])
		return []fix{replacing(i, colon, colon+1, ": ", colon, "write a space after the colon: "+excerpt.Of(tight[1]+": "+tight[2], 60),
			"a key is followed by a colon and a space")}
	}
	if colon := strings.Index(rest, "："); colon > 0 && e.key < 0 {
		colon += e.body
		return []fix{replacing(i, colon, colon+len("："), ": ", colon, "write a plain : and a space", "this is another kind of colon")}
	}
	word := loneWord().FindStringSubmatch(rest)
	if word == nil {
		if word = twoWords().FindStringSubmatch(rest); word == nil || e.key >= 0 || !slices.Contains(r.keys, word[1]) {
			return nil
		}
	}
	end := e.body + len(word[1])
	return []fix{replacing(i, end, end+min(1, len(word[2])), ": ", end, "write: "+word[1]+":", "the colon after %s is missing", Quote(word[1]))}
}

// SpacedKey inserts the missing space into text that was meant as a key and a value, such as a:1. It
// returns "" for any other text.
func SpacedKey(text string) string {
	if tight := tightKey().FindStringSubmatch(text); tight != nil && !strings.ContainsAny(text, "\n") {
		return excerpt.Of(tight[1]+": "+tight[2], 60)
	}
	if key, value, wide := strings.Cut(text, "："); wide && !strings.ContainsAny(text, "\n") {
		return excerpt.Of(key+": "+strings.TrimSpace(value), 60)
	}
	return ""
}

// dashes corrects an item without a dash and a space.
func (r *repair) dashes(i int) []fix {
	text := r.lines[i]
	e := entryOf(text)
	if tightItem().MatchString(text[e.body:]) {
		return []fix{replacing(i, e.body, e.body+1, "- ", e.body, "write a space after the dash: - "+excerpt.Of(text[e.body+1:], 60),
			"a list item begins with a dash and a space")}
	}
	amongItems := slices.ContainsFunc(r.levels(i), func(l level) bool { return l.list && l.indent == e.body })
	if e.key < 0 || len(e.dashes) > 0 || !amongItems {
		return nil
	}
	f := replacing(i, e.body, e.body, "- ", e.body, "put `- ` before it, or indent it further", "this line is among the items of a list, but has no `- `")
	f.edits = append(f.edits, r.moved(i+1, e.body+1, 2)...)
	return []fix{f}
}

// moved returns the edits that move a block to the right: the lines from one on with at least this
// indentation.
func (r *repair) moved(line, indent, by int) []edit {
	var out []edit
	for j := line; j < len(r.lines); j++ {
		own := indentOf(r.lines[j])
		if strings.TrimSpace(r.lines[j]) == "" {
			continue
		}
		if own < indent {
			break
		}
		out = append(out, edit{j, 0, own, strings.Repeat(" ", max(0, own+by))})
	}
	return out
}

// level is a map or a list that a line may belong to.
type level struct {
	indent int
	list   bool
	line   int // of its last key or item
}

// levels returns the maps and lists around a line, the innermost first.
func (r *repair) levels(i int) []level {
	var out []level
	for j := i - 1; j >= max(0, i-lookBack); j-- {
		text := r.lines[j]
		if isBlank(text) || !structural().MatchString(text) {
			continue
		}
		e := entryOf(text)
		var own []level
		if e.key >= 0 {
			own = append(own, level{e.key, false, j})
		}
		for _, dash := range slices.Backward(e.dashes) {
			own = append(own, level{dash, true, j})
		}
		for _, l := range own {
			if n := len(out); n == 0 || l.indent < out[n-1].indent || l.indent == out[n-1].indent && !l.list && out[n-1].list {
				out = append(out, l)
			}
		}
	}
	return out
}

// indentation corrects a line that is not indented like the lines around it.
func (r *repair) indentation(i int) []fix {
	text := r.lines[i]
	at := indentOf(text)
	levels := r.levels(i)
	if len(levels) == 0 || !structural().MatchString(text) {
		return nil
	}
	isList := len(entryOf(text).dashes) > 0
	fits := slices.DeleteFunc(slices.Clone(levels), func(l level) bool { return l.list != isList || l.indent == at })
	if outer := slices.IndexFunc(fits, func(l level) bool { return l.indent < at }); outer >= 0 {
		fits = fits[max(0, outer-2) : outer+1] // the nearest one, and two that are indented further
	}
	if len(fits) == 0 {
		fits = slices.DeleteFunc(slices.Clone(levels), func(l level) bool { return l.indent == at })
	}
	deeper := at > levels[0].indent
	if deeper && !slices.Contains(fits, levels[0]) {
		fits = append(fits, levels[0])
	}
	var indents []string
	for _, l := range slices.Backward(fits) {
		indents = append(indents, strconv.Itoa(l.indent))
	}
	slices.SortStableFunc(fits, func(a, b level) int { return cmp.Compare(max(a.indent-at, at-a.indent), max(b.indent-at, at-b.indent)) })
	var out []fix
	for _, l := range fits {
		f := fix{line: i, offset: at, edits: r.moved(i, at, l.indent-at)}
		if deeper {
			f.message = fmt.Sprintf("this line is indented deeper than line %d, which already has a value", l.line+1)
			f.suggestion = fmt.Sprintf("indent it like line %d, or remove the value there", l.line+1)
		} else {
			f.message = fmt.Sprintf("this line is indented by %s, the lines that it can belong to by %s", plural(at, "space"), strings.Join(slices.Compact(indents), " or "))
			f.suggestion = fmt.Sprintf("indent it by %d, like line %d", l.indent, l.line+1)
		}
		out = append(out, f)
		if len(f.edits) > 1 { // the lines below may be right
			f.edits = f.edits[:1]
			out = append(out, f)
		}
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// values corrects a value that is written outside of brackets.
func (r *repair) values(i int) []fix {
	text := r.lines[i]
	e := entryOf(text)
	if e.value >= len(text) || text[e.value] == '#' {
		return nil
	}
	value := bare(text[e.value:])
	quoted := func(value string, offset int, suggestion, format string, args ...any) []fix {
		return []fix{quoting(i, e.value, e.value+len(bare(text[e.value:])), value, offset, suggestion, format, args...)}
	}
	switch c := value[0]; c {
	case '|', '>':
		if !blockText().MatchString(text[e.value:]) {
			return quoted(value, e.value, "begin the text on the next line, indented", "text after %c begins on the next line", c)
		}
	case '"', '\'':
		end := QuoteEnd(value, 0)
		switch rest := strings.TrimSpace(value[end+1:]); {
		case end < 0:
		case rest == "":
			return badEscape(i, e.value, value)
		case rest[0] != ':':
			inner, whole := strings.CutSuffix(value[1:], value[:1])
			switch {
			case whole && c == '"':
				return quoted(inner, e.value+end, "put single quotes around it: "+InSingleQuotes(inner), "a double quote inside double quotes")
			case whole:
				return quoted(inner, e.value+end, "write it twice: "+InSingleQuotes(inner), "a single quote inside single quotes")
			default:
				return quoted(value, e.value+end, "put quotes around the whole value: "+InSingleQuotes(value), "the text in quotes ends here, but the line continues")
			}
		}
	case '{', '[':
		end := r.closed(i, e.value)
		rest := strings.TrimLeft(text[end:], " \t")
		if rest == "" || rest[0] == '#' || rest[0] == ':' {
			break
		}
		if bare(rest) == "," {
			return []fix{replacing(i, end, end+len(text[end:])-len(rest)+1, "", len(text)-len(rest), "remove the comma", "the line continues after the closing %c", text[end-1])}
		}
		suggestion := "quote it, if it is text: " + InSingleQuotes(value)
		if strings.ContainsAny(value, ".$") {
			suggestion = "quote the expression: " + InSingleQuotes("${ "+value+" }")
		}
		f := quoted(value, len(text)-len(rest), suggestion, "the line continues after the closing %c", text[end-1])
		f[0].vague = []int{i}
		return f
	case '@', '`', '%', '*':
		return badStart(i, e.value, value)
	case ',', ']', '}':
		return quoted(value, e.value, "quote it if it is text", "a value cannot begin with %c", c)
	case '?':
		if strings.HasPrefix(value, "? ") {
			return quoted(value, e.value, "quote it if it is text", "a value cannot begin with ? and a space")
		}
	case '-':
		if e.key >= 0 && strings.HasPrefix(value, "- ") {
			f := replacing(i, e.value, e.value+1, "#", e.value, "begin the list on a line of its own, below the key", "a list cannot begin on the line of its key")
			f.vague = []int{i}
			return []fix{f}
		}
	default:
		if colon := strings.Index(value+" ", ": "); colon >= 0 {
			return quoted(value, e.value+colon, "quote the value: "+InSingleQuotes(value), "a second `: ` in one line, in a value without quotes")
		}
	}
	return nil
}

// bare returns a value without its trailing comment.
func bare(value string) string {
	value, _, _ = strings.Cut(value, " #")
	return strings.TrimRight(value, " \t")
}

// InSingleQuotes returns text in single quotes.
func InSingleQuotes(value string) string {
	return "'" + strings.ReplaceAll(excerpt.Of(value, 200), "'", "''") + "'"
}

// badEscape corrects an unknown escape in a value in double quotes.
func badEscape(line, from int, value string) []fix {
	for at := 1; value[0] == '"' && at < len(value)-1; at++ {
		if value[at] != '\\' {
			continue
		}
		if !escapes().MatchString(value[at:]) {
			_, size := utf8.DecodeRuneInString(value[at+1:])
			inner := value[1 : len(value)-1]
			return []fix{quoting(line, from, from+len(value), inner, from+at, "put single quotes around it: "+InSingleQuotes(inner),
				"YAML has no escape %s in double quotes", value[at:at+1+size])}
		}
		at++
	}
	return nil
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

// badStart corrects an unquoted word that cannot be a value because of its first character.
func badStart(line, from int, word string) []fix {
	f := quoting(line, from, from+len(word), word, from, "quote it: "+InSingleQuotes(word), "a value cannot begin with %c", word[0])
	if name := anchorName().FindStringSubmatch(word); name != nil {
		f.message = fmt.Sprintf("there is no anchor &%s above", name[1])
		f.suggestion = "define it above: &" + name[1] + "; or quote the value: " + InSingleQuotes(word)
		f.vague = []int{line}
	} else if word[0] == '*' {
		f.message += ", unless it is the name of an anchor"
	}
	return []fix{f}
}
