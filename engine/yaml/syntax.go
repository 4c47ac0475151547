package yaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/lazyregexp"
)

// Read parses source into a tree. It returns nil if source is empty or cannot be parsed; the latter is
// reported to collector.
func Read(collector *Collector, source []byte) *Node {
	switch {
	case len(source) > MaxSize:
		collector.Mistake(Pos{1, 1}, "", "the document has %d bytes, the limit is %d", len(source), MaxSize)
		return nil
	case !utf8.Valid(source):
		at := first(source, func(r rune, size int) bool { return r == utf8.RuneError && size == 1 })
		collector.Mistake(at, "save the file as UTF-8", "the text is not UTF-8")
		return nil
	case bytes.ContainsFunc(source, control):
		at := first(source, func(r rune, _ int) bool { return control(r) })
		collector.Mistake(at, `write it as an escape in double quotes: "\x1b"`, "this is a control character")
		return nil
	case bytes.HasPrefix(leading(source), []byte("%TAG")):
		collector.Mistake(Pos{1, 1}, "remove it", "a %%TAG directive is not supported")
		return nil
	}
	y := root(collector, source)
	if y == nil {
		return nil
	}
	t := newTreeBuilder(collector, maxNodes, maxAliases)
	root := t.build(y, 1)
	if t.full {
		return nil
	}
	return root
}

// leading returns the text from its first line that is not a comment, empty, or a directive
// other than %TAG.
func leading(source []byte) []byte {
	for len(source) > 0 {
		line, rest, _ := bytes.Cut(source, []byte("\n"))
		trimmed := bytes.TrimSpace(line)
		skipped := len(trimmed) == 0 || trimmed[0] == '#' || bytes.HasPrefix(line, []byte("%")) && !bytes.HasPrefix(line, []byte("%TAG"))
		if !skipped {
			return source
		}
		source = rest
	}
	return nil
}

// control reports whether YAML requires a character to be escaped.
func control(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f || r >= 0x80 && r < 0xa0 && r != 0x85 ||
		r == 0xfeff || r == 0xfffe || r == 0xffff
}

// first returns the position of the first character that satisfies a predicate.
func first(source []byte, is func(r rune, size int) bool) Pos {
	at := Pos{1, 1}
	for len(source) > 0 {
		r, size := utf8.DecodeRune(source)
		switch {
		case is(r, size):
			return at
		case r == '\n':
			at = Pos{at.Line + 1, 1}
		default:
			at.Column++
		}
		source = source[size:]
	}
	return at
}

// root returns the root of the single document in YAML or JSON source. It returns nil if source is
// empty or cannot be parsed; the latter is reported to c.
func root(c *Collector, source []byte) *yaml3.Node {
	documents, err := decode(bytes.NewReader(source))
	switch separated := bytes.ContainsAny(source, separators); {
	case separated && err == nil:
		renumber(documents, source)
	case separated && !json.Valid(source):
		at := first(source, func(r rune, _ int) bool { return strings.ContainsRune(separators, r) })
		c.Mistake(at, `remove it, or write it as an escape in double quotes: "\u2028"`, "this invisible character ends the line, like a line break")
		return nil
	case err != nil && bytes.HasPrefix(source, []byte("%YAML")) && !bytes.HasPrefix(source, []byte("%YAML 1.1")):
		c.Mistake(Pos{1, 1}, "remove this line", "a %%YAML directive is not supported")
		return nil
	case err != nil:
		documents = decodeRepaired(c, source)
	}
	if len(documents) > 1 {
		c.Mistake(posOf(documents[1]), "put each document into a file of its own", "a second document begins here")
	}
	if len(documents) > 0 && len(documents[0].Content) > 0 {
		return documents[0].Content[0]
	}
	return nil
}

// separators are the characters at which the YAML parser ends a line, but no editor does.
const separators = "\u0085\u2028\u2029"

// renumber changes the positions of nodes from the lines of the YAML parser to those of editors.
func renumber(nodes []*yaml3.Node, source []byte) {
	at := Pos{1, 1}
	starts := []Pos{at} // of the parser's lines
	for _, r := range string(source) {
		at.Column++
		if r == '\n' {
			at = Pos{at.Line + 1, 1}
		}
		if r == '\n' || strings.ContainsRune(separators, r) {
			starts = append(starts, at)
		}
	}
	var move func(nodes []*yaml3.Node)
	move = func(nodes []*yaml3.Node) {
		for _, n := range nodes {
			if n.Line > 0 && n.Line <= len(starts) {
				start := starts[n.Line-1]
				n.Line, n.Column = start.Line, n.Column+start.Column-1
			}
			move(n.Content)
		}
	}
	move(nodes)
}

// decode parses the documents of YAML source, at most the first few.
func decode(source io.Reader) (documents []*yaml3.Node, err error) {
	// A panic of the YAML library is reported as a mistake in the document.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	const limit = 5
	decoder := yaml3.NewDecoder(source)
	for len(documents) < limit {
		n := &yaml3.Node{}
		if err := decoder.Decode(n); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return documents, err
		}
		documents = append(documents, n)
	}
	return documents, nil
}

// decodeRepaired parses the documents of source that the YAML parser rejects, after correcting what it
// can. It reports each mistake that it finds.
func decodeRepaired(c *Collector, source []byte) []*yaml3.Node {
	r := newRepair(source, c.keys)
	if json.Valid(source) {
		r.rewriteJSON()
	}
	documents, line, err := r.run()
	for _, m := range r.mistakes {
		c.Mistake(m.Pos, m.Suggestion, "%s", m.Message)
	}
	if err != nil {
		if !slices.ContainsFunc(r.mistakes, func(m Mistake) bool { return m.Line > line }) {
			syntaxMistake(c, source, line+1, err)
		}
		return nil
	}
	c.muted = r.vague
	return documents
}

var atLine = lazyregexp.New(`^line (\d+): (.*)$`)

// yamlError returns the line and the message of an error of the YAML parser; a huge number if it has no
// line.
func yamlError(err error) (line int, said string) {
	said = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := atLine().FindStringSubmatch(said); m != nil {
		line, _ = strconv.Atoi(m[1])
		return line, m[2]
	}
	return 1 << 30, said
}

// syntaxMistake reports an error of the YAML parser in plain words.
func syntaxMistake(collector *Collector, source []byte, line int, err error) {
	_, said := yamlError(err)
	line = min(line, bytes.Count(source, []byte("\n"))+1)
	shown, ok := lineOf(source, line)
	for !ok && line > 1 {
		line--
		shown, ok = lineOf(source, line)
	}
	message, suggestion := plainWords(said, shown)
	column := 1 + utf8.RuneCountInString(shown) - utf8.RuneCountInString(strings.TrimLeft(shown, " "))
	if i := strings.IndexByte(shown, '\t'); i >= 0 && strings.Contains(message, "tab") {
		column = 1 + utf8.RuneCountInString(shown[:i])
	}
	collector.Mistake(Pos{line, column}, suggestion, "%s", message)
}

// plainWords translates an error of the YAML parser, given the line that it refers to.
func plainWords(said, line string) (message, suggestion string) {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch {
	case strings.Contains(indent, "\t") || strings.Contains(said, "tab character"):
		return "YAML is indented with spaces, this is a tab", "replace the tab with spaces"
	case strings.Contains(said, "mapping values are not allowed"):
		return "a second `: ` in one line, or a wrong indentation", "quote a value that contains `: `: key: '${ … }'"
	case strings.Contains(said, "unexpected end of stream"):
		return "a quote, bracket or brace is never closed", ""
	case strings.Contains(said, "cannot start any token"):
		return "a value cannot begin with this character", "quote the value: key: '…'"
	case strings.Contains(said, "could not find expected ':'"):
		return "this line is neither a `key: value` nor a list item nor the continuation of a text", "add `: ` after the key, or correct the indentation"
	case strings.Contains(said, "expected ',' or"):
		return "a list in [ ] or a map in { } lacks a comma, or is never closed", "quote text that contains { } [ ]"
	case strings.Contains(said, "did not find expected key"), strings.Contains(said, "did not find expected '-' indicator"):
		return "this line is indented differently from its neighbours, or the text before it is not quoted correctly", "indent keys of one map, and items of one list, alike"
	case strings.Contains(said, "unknown anchor"):
		return said, "define it above: &name; or quote the value"
	case strings.Contains(said, "exceeded max depth"):
		return fmt.Sprintf("nested deeper than %d levels", MaxDepth), ""
	case strings.Contains(said, "expected node content"):
		return "a value is missing here", ""
	default:
		return "the YAML cannot be read: " + said, ""
	}
}
