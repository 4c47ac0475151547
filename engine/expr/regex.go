package expr

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxPattern  = 4 << 10 // bytes of a regular expression
	maxSubject  = 1 << 20 // bytes of the text it is applied to
	maxPatterns = 64      // regular expressions that a Program keeps compiled
)

// regex is a compiled regular expression.
type regex struct {
	*regexp.Regexp
	// probe finds a match one character later: Go skips an empty match right
	// after another match, jq does not.
	probe *regexp.Regexp
	size  int // instructions
}

// regexes keeps a Program's regular expressions, compiled.
type regexes struct {
	mu   sync.Mutex
	kept map[[2]string]*regex
}

func (r *regexes) find(pattern, flags string) (*regex, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a regular expression of %d bytes, want at most %d", len(pattern), maxPattern)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{pattern, flags}
	if found := r.kept[key]; found != nil {
		return found, nil
	}
	made, err := newRegex(pattern, flags)
	if err != nil {
		return nil, err
	}
	if r.kept == nil || len(r.kept) >= maxPatterns {
		r.kept = map[[2]string]*regex{}
	}
	r.kept[key] = made
	return made, nil
}

func newRegex(pattern, flags string) (*regex, error) {
	if strings.Trim(flags, "gim") != "" {
		return nil, fmt.Errorf("unsupported regular expression flag: %q", flags)
	}
	if strings.Contains(flags, "i") {
		pattern = "(?i)" + pattern
	}
	if strings.Contains(flags, "m") {
		pattern = "(?s)" + pattern
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", pattern, err)
	}
	out := &regex{Regexp: compiled, size: len(pattern)}
	if out.probe, err = regexp.Compile(`\A(?s:.)(?:` + pattern + `)`); err != nil {
		out.probe = nil
	}
	if tree, err := syntax.Parse(pattern, syntax.Perl); err == nil {
		if prog, err := syntax.Compile(tree.Simplify()); err == nil {
			out.size = len(prog.Inst)
		}
	}
	return out, nil
}

// match applies a regular expression, as gojq's _match: arguments are pattern,
// flags and whether to test only. Go's take time in proportion to text and expression.
func (r *regexes) match(m *meter, dot any, args []any) (any, error) {
	text, isText := dot.(string)
	pattern, isPattern := args[0].(string)
	flags, isFlags := args[1].(string)
	if !isText || !isPattern || !isFlags && args[1] != nil {
		return nil, fmt.Errorf("match(%s; %s) cannot be applied to: %s", told(args[0]), told(args[1]), told(dot))
	}
	if len(text) > maxSubject {
		return nil, fmt.Errorf("a text of %d bytes for a regular expression, want at most %d", len(text), maxSubject)
	}
	// Nearly all patterns are found: compiling one is worth far more.
	if err := m.spend(1 + len(pattern)/4); err != nil {
		return nil, err
	}
	re, err := r.find(pattern, flags)
	if err != nil {
		return nil, err
	}
	if err := m.spend(len(text) * (8 + re.size) / (2 * grain)); err != nil {
		return nil, err
	}
	if args[2] == true {
		return re.MatchString(text), nil
	}
	return re.matches(m, text, strings.Contains(flags, "g"))
}

// matches lists the first match, or all.
func (r *regex) matches(m *meter, text string, all bool) (any, error) {
	price := 8 * (2 + r.NumSubexp())
	most := 1
	if all {
		most = m.left/price + 1
	}
	found := r.FindAllStringSubmatchIndex(text, most)
	if all {
		found = r.withEmpty(text, found)
	}
	if err := m.spend(price * len(found)); err != nil {
		return nil, err
	}
	names := r.SubexpNames()
	chars := counter{text: text}
	out := make([]any, len(found))
	for i, at := range found {
		base := chars.to(at[0])
		captures := make([]any, 0, len(names)-1)
		for group := 1; group < len(names); group++ {
			captures = append(captures, capture(text, at[0], base, names[group], at[2*group:2*group+2]))
		}
		out[i] = map[string]any{
			"offset":   base,
			"length":   utf8.RuneCountInString(text[at[0]:at[1]]),
			"string":   text[at[0]:at[1]],
			"captures": captures,
		}
	}
	return out, nil
}

// capture describes a group that matched at those bytes. The match itself
// began at byte from, which is character base.
func capture(text string, from, base int, name string, at []int) any {
	out := map[string]any{"name": nil, "offset": -1, "length": 0, "string": nil}
	if name != "" {
		out["name"] = name
	}
	if at[0] >= 0 {
		out["offset"] = base + utf8.RuneCountInString(text[from:at[0]])
		out["length"] = utf8.RuneCountInString(text[at[0]:at[1]])
		out["string"] = text[at[0]:at[1]]
	}
	return out
}

// counter turns growing byte offsets into character offsets.
type counter struct {
	text        string
	byte, chars int
}

func (c *counter) to(offset int) int {
	c.chars += utf8.RuneCountInString(c.text[c.byte:offset])
	c.byte = offset
	return c.chars
}

// withEmpty adds the empty matches at the ends of others.
func (r *regex) withEmpty(text string, found [][]int) [][]int {
	if r.probe == nil {
		return found
	}
	out := make([][]int, 0, len(found))
	for i, at := range found {
		out = append(out, at)
		if at[0] == at[1] || i+1 < len(found) && found[i+1][0] == at[1] {
			continue
		}
		if empty := r.emptyAt(text, at[1]); empty != nil {
			out = append(out, empty)
		}
	}
	return out
}

func (r *regex) emptyAt(text string, offset int) []int {
	_, width := utf8.DecodeLastRuneInString(text[:offset])
	at := r.probe.FindStringSubmatchIndex(text[offset-width:])
	if at == nil || at[1] != width {
		return nil
	}
	for i := range at {
		if at[i] >= 0 {
			at[i] += offset - width
		}
	}
	at[0], at[1] = offset, offset
	return at
}
