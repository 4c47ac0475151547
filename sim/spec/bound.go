package spec

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/yaml"
)

// bound is a number, or a comparison with one.
type bound struct {
	operator string // "=" if the file has none
	text     string // the number as it was written
	limit    dsl.Duration
	count    int
}

// operators returns the comparison operators; longer ones come before their prefixes.
func operators() []string { return []string{"<=", ">=", "<", ">", "="} }

// split separates the operator of a comparison from its operand.
func split(text string) bound {
	text = strings.TrimSpace(text)
	for _, operator := range operators() {
		if rest, ok := strings.CutPrefix(text, operator); ok {
			return bound{operator: operator, text: strings.TrimSpace(rest)}
		}
	}
	return bound{operator: "=", text: text}
}

func (b bound) String() string {
	if b.operator == "=" {
		return b.text
	}
	return b.operator + " " + b.text
}

// holds reports whether a comparison holds; sign is that of actual minus expected.
func (b bound) holds(sign int) bool {
	switch b.operator {
	case "<":
		return sign < 0
	case "<=":
		return sign <= 0
	case ">":
		return sign > 0
	case ">=":
		return sign >= 0
	default:
		return sign == 0
	}
}

// durations reads a duration, a comparison with one, or a list of these.
func durations(r *yaml.Reader, n *yaml3.Node, what string) []bound {
	if n.Kind == yaml3.MappingNode {
		d, err := dsl.ParseDuration(r.Data(n))
		if err != nil {
			r.Errorf(n, "%s: %v", what, err)
		}
		return []bound{{operator: "=", text: d.String(), limit: d}}
	}
	var out []bound
	for _, text := range r.Texts(n, what) {
		b := split(text)
		var err error
		if b.limit, err = dsl.ParseDuration(b.text); err != nil {
			r.Errorf(n, "%s: %v", what, err)
		}
		out = append(out, b)
	}
	return out
}

// counts reads a count, a comparison with one, or a list of these.
func counts(r *yaml.Reader, n *yaml3.Node, what string) []bound {
	var out []bound
	for _, text := range r.Texts(n, what) {
		b := split(text)
		var err error
		if b.count, err = strconv.Atoi(b.text); err != nil || b.count < 0 {
			r.Errorf(n, "%s is %q, want a number, or a comparison such as \"<= 3\"", what, text)
		}
		out = append(out, b)
	}
	return out
}

// lasted compares a time with a duration, which may have calendar units that count from
// start.
func (b bound) lasted(d time.Duration, start time.Time) bool {
	return b.holds(cmp.Compare(d, b.limit.From(start).Sub(start)))
}

// times returns a count in words.
func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	default:
		return history.Count(n, "time")
	}
}
