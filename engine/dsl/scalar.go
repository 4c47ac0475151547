package dsl

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Patterns of YAML 1.2's core schema. Everything else is text, including dates, yes and
// no.
var (
	wholePattern = regexp.MustCompile(`^[-+]?[0-9]+$`)
	floatPattern = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	basedPattern = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	notFinite    = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// scalar parses a plain or quoted value.
func (t *treeBuilder) scalar(n *node, y *yaml.Node) {
	n.shape, n.data = text, any(y.Value)
	if y.Style&yaml.TaggedStyle != 0 {
		t.taggedScalar(n, y)
		return
	}
	if y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		t.plain(n, y.Value)
	}
}

// taggedScalar parses a value with an explicit tag.
func (t *treeBuilder) taggedScalar(n *node, y *yaml.Node) {
	var want shape
	switch y.Tag {
	case "!!str":
		return
	case "!!int", "!!float":
		want = number
	case "!!bool":
		want = boolean
	case "!!null":
		want = null
	default:
		t.notes.mistake(n.Pos, "remove the tag", "the YAML tag %s is not supported", quote(y.Tag))
		return
	}
	if t.plain(n, y.Value); n.shape != want {
		t.notes.mistake(n.Pos, "remove the tag", "%s is not what its tag %s says", quote(y.Value), y.Tag)
	}
}

// plain parses an unquoted value.
func (t *treeBuilder) plain(n *node, s string) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		n.shape, n.data = null, nil
		return
	case "true", "True", "TRUE":
		n.shape, n.data = boolean, true
		return
	case "false", "False", "FALSE":
		n.shape, n.data = boolean, false
		return
	}
	switch {
	case !strings.ContainsRune("+-.0123456789", rune(s[0])):
	case wholePattern.MatchString(s):
		t.whole(n, strings.TrimPrefix(s, "+"), 10)
	case basedPattern.MatchString(s):
		base := 8
		if s[1] == 'x' {
			base = 16
		}
		t.whole(n, s[2:], base)
	case floatPattern.MatchString(s):
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) {
			t.notes.mistake(n.Pos, "quote it to have it as text", "the number %s is too large", quote(s))
			f = 0
		}
		n.shape, n.data = number, f
	case notFinite.MatchString(s):
		t.notes.mistake(n.Pos, "quote it to have it as text", "%s is not a number in JSON", s)
		n.shape, n.data = number, 0
	}
}

func (t *treeBuilder) whole(n *node, digits string, base int) {
	n.shape, n.data = number, 0
	if len(digits) > MaxDigits {
		t.notes.mistake(n.Pos, "quote it to have it as text", "a number of more than %d digits", MaxDigits)
		return
	}
	i, ok := new(big.Int).SetString(digits, base)
	switch {
	case !ok:
	case i.IsInt64():
		n.data = int(i.Int64())
	default:
		n.data = i
	}
}
