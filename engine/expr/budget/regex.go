package budget

import (
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxPattern  = 4 << 10 // bytes of a regular expression
	maxSubject  = 1 << 20 // bytes of the text it is applied to
	maxPatterns = 64      // compiled regular expressions cached by a Program, and by an evaluation
	maxStates   = 20_000  // states of a regular expression, with all repetitions expanded
)

// regex is a compiled regular expression.
type regex struct {
	*regexp.Regexp
	// probe finds a match one character later: Go skips an empty match right after another match,
	// jq does not.
	probe *regexp.Regexp
	size  int // states
	// later finds the first match after the first character, which only serves as context.
	later   *regexp.Regexp
	rescans bool // finding a match may read far beyond it
}

// perByte returns the cost of a byte of text, in steps per grain.
func (r *regex) perByte(test bool) int {
	if test {
		return 8 + r.size
	}
	return (8 + r.size) * (4 + r.NumSubexp()) / 4
}

// regexes caches a Program's compiled regular expressions.
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
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", pattern, err)
	}
	size := states(tree)
	if size > maxStates {
		return nil, fmt.Errorf("a regular expression of more than %d states, all repetitions written out (limit expression-states)", maxStates)
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", pattern, err)
	}
	out := &regex{Regexp: compiled, size: size}
	if out.probe, err = regexp.Compile(`\A(?s:.)(?:` + pattern + `)`); err != nil {
		out.probe = nil
	}
	if out.rescans = repeats(tree); out.rescans {
		if out.later, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + pattern + `)`); err != nil {
			out.rescans = false
		}
	}
	return out, nil
}

// repeats reports whether a regular expression contains an unbounded repetition.
func repeats(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus:
		return true
	case syntax.OpRepeat:
		if re.Max < 0 {
			return true
		}
	default:
	}
	return slices.ContainsFunc(re.Sub, repeats)
}

// countedRunes reads the runes of a string and charges for them.
type countedRunes struct {
	*strings.Reader
	m     *Meter
	price int
	owed  int
}

// ReadRune ends the string when no steps are left.
func (c *countedRunes) ReadRune() (r rune, size int, err error) {
	r, size, err = c.Reader.ReadRune()
	if c.owed += size * c.price; c.owed >= 1<<10*grain {
		owed := c.owed / grain
		c.owed = 0
		if !c.m.charge(owed) {
			return 0, 0, io.EOF
		}
	}
	return r, size, err
}

// findAll is like FindAllStringSubmatchIndex, but charges for all text that is read: finding one
// match may read all of it.
func (r *regex) findAll(m *Meter, text string, limit int) (found [][]int) {
	price := r.perByte(false)
	for at, last := 0, -1; len(found) < limit && at <= len(text); {
		from, re, groups := at, r.Regexp, 0
		if at > 0 {
			_, width := utf8.DecodeLastRuneInString(text[:at])
			from, re, groups = at-width, r.later, 2
		}
		match := re.FindReaderSubmatchIndex(&countedRunes{Reader: strings.NewReader(text[from:]), m: m, price: price})
		if m.left < 0 {
			panic(overLimit{errSteps})
		}
		if match == nil {
			break
		}
		match = match[groups:]
		for i := range match {
			if match[i] >= 0 {
				match[i] += from
			}
		}
		accepted := true
		if match[1] == at {
			accepted = match[0] != last
			_, width := utf8.DecodeRuneInString(text[at:])
			at += max(width, 1)
		} else {
			at = match[1]
		}
		if last = match[1]; accepted {
			found = append(found, match)
		}
	}
	return found
}

// states estimates the number of states of a compiled regular expression, with repetitions
// expanded.
func states(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		size += states(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, 10*maxStates)
}

// regex returns a regular expression for this evaluation. The first use is charged for compiling
// it even if the Program has cached it: the cost must not depend on other evaluations.
func (m *Meter) regex(kept *regexes, pattern, flags string) (*regex, error) {
	key := [2]string{pattern, flags}
	if found := m.patterns[key]; found != nil {
		return found, nil
	}
	m.spend(200 + 8*len(pattern))
	re, err := kept.find(pattern, flags)
	if err != nil {
		return nil, err
	}
	m.spend(16 * re.size)
	if m.patterns == nil || len(m.patterns) >= maxPatterns {
		m.patterns = map[[2]string]*regex{}
	}
	m.patterns[key] = re
	return re, nil
}

// match applies a regular expression as gojq's _match does: the arguments are the pattern, the
// flags and whether to test only. Go's matching takes time proportional to text and expression.
func (r *regexes) match(m *Meter, dot any, args []any) (any, error) {
	text, isText := dot.(string)
	pattern, isPattern := args[0].(string)
	flags, isFlags := args[1].(string)
	if !isText || !isPattern || !isFlags && args[1] != nil {
		return nil, fmt.Errorf("match(%s; %s) cannot be applied to: %s", Describe(args[0]), Describe(args[1]), Describe(dot))
	}
	if len(text) > maxSubject {
		return nil, fmt.Errorf("a text of %d bytes for a regular expression, want at most %d", len(text), maxSubject)
	}
	m.spend(1 + len(pattern)/4)
	re, err := m.regex(r, pattern, flags)
	if err != nil {
		return nil, err
	}
	m.spend(len(text) * re.perByte(args[2] == true) / grain)
	if args[2] == true {
		return re.MatchString(text), nil
	}
	return re.matches(m, text, strings.Contains(flags, "g")), nil
}

// matches returns the first match, or all.
func (r *regex) matches(m *Meter, text string, all bool) []any {
	price := 8 * (2 + r.NumSubexp())
	limit := 1
	if all {
		limit = m.left/price + 1
	}
	var found [][]int
	if all && r.rescans && len(text) > 256 {
		found = r.findAll(m, text, limit)
	} else {
		found = r.FindAllStringSubmatchIndex(text, limit)
	}
	if all {
		found = r.withEmpty(text, found)
	}
	m.spend(price * len(found))
	m.allocate(mapBytes(4) * (1 + r.NumSubexp()) * len(found))
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
	return out
}

// capture describes a group that matched at these bytes. The match itself starts at byte
// from, which is character base.
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

// counter converts increasing byte offsets to character offsets.
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
