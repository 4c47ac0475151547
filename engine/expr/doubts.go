package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// Doubt is a valid part of an expression that probably does not do what its author meant.
type Doubt struct {
	Offset     int    // byte offset in the source
	Rule       string // the name of the rule that it breaks, one of the constants
	Message    string
	Suggestion string
}

// The rules that expressions may break.
const (
	RuleAssignment = "assignment"         // a condition has = instead of ==
	RuleConstant   = "constant-condition" // a condition is always true or false
	RuleMeaning    = "jq-meaning"         // jq reads something else than the author meant
)

// Doubts returns the parts of the expression that its author may not have meant.
func (p *Program) Doubts() []Doubt { return p.doubts }

// ConditionDoubts returns the doubts that apply only if the expression is used as a condition.
func (p *Program) ConditionDoubts() []Doubt { return p.condition }

// doubt finds mistakes that are valid jq but mean something else. It must run before
// resolve, which modifies the query.
func (p *Program) doubt(query *gojq.Query, known func(string) bool) {
	if p.path == nil || len(p.path.steps) > 1 || strings.ContainsAny(p.src, " \t") {
		p.wordDoubts(known)
	}
	if p.path == nil {
		p.assignments(query)
		p.formats()
	}
	p.conditionDoubt(query)
}

// conditionDoubt reports a condition whose result does not depend on the data.
func (p *Program) conditionDoubt(q *gojq.Query) {
	q = bare(q)
	if q.Op == gojq.OpAssign {
		p.condition = append(p.condition, p.assigned(q))
		return
	}
	if truth, known := always(q); known {
		p.condition = append(p.condition, Doubt{
			Rule:       RuleConstant,
			Message:    fmt.Sprintf("this condition is always %t", truth),
			Suggestion: alternative(q),
		})
	}
}

// alternative suggests what was meant by .status == "a" or "b".
func alternative(q *gojq.Query) string {
	const general = `compare with the data: .status == "paid"`
	left, right := bare(q.Left), bare(q.Right)
	if q.Op != gojq.OpOr || left == nil || right == nil {
		return general
	}
	if _, constant := always(right); !constant {
		return general
	}
	for left.Op == gojq.OpOr {
		left = bare(left.Left)
	}
	if left.Op != gojq.OpEq {
		return "compare each of them: .a == 1 or .a == 2"
	}
	return fmt.Sprintf("compare each of them: %s or %s == %s", q.Left, left.Left, right)
}

// bare returns a query without the parentheses around it.
func bare(q *gojq.Query) *gojq.Query {
	for q != nil && q.Term != nil && q.Term.Type == gojq.TermTypeQuery && len(q.Term.SuffixList) == 0 {
		q = q.Term.Query
	}
	return q
}

// always returns the truth value of a condition that obviously does not depend on data.
func always(q *gojq.Query) (truth, known bool) {
	q = bare(q)
	switch {
	case q == nil || len(q.FuncDefs) > 0 || len(q.Patterns) > 0:
		return false, false
	case q.Term != nil:
		v, isConstant := constant(q.Term)
		isConstant = isConstant || q.Term.Type == gojq.TermTypeNumber
		return v != nil && v != false, isConstant && len(q.Term.SuffixList) == 0
	}
	switch q.Op {
	case gojq.OpAnd, gojq.OpOr:
		left, leftKnown := always(q.Left)
		right, rightKnown := always(q.Right)
		decides := q.Op == gojq.OpOr
		switch {
		case leftKnown && left == decides, rightKnown && right == decides:
			return decides, true
		default:
			return !decides, leftKnown && rightKnown
		}
	case gojq.OpEq, gojq.OpLe, gojq.OpGe:
		return true, same(q.Left, q.Right)
	case gojq.OpNe, gojq.OpLt, gojq.OpGt:
		return false, same(q.Left, q.Right)
	default:
		return false, false
	}
}

// same reports whether both sides of a comparison are the same path or constant.
func same(left, right *gojq.Query) bool {
	l, r := bare(left), bare(right)
	return l != nil && r != nil && pathOf(l) != nil && pathOf(r) != nil && l.String() == r.String()
}

// assigned returns the doubt about a comparison written as an assignment.
func (p *Program) assigned(q *gojq.Query) Doubt {
	h := &hinter{src: p.src, words: tokens(p.src)}
	is := func(t token) bool { return t.text == "=" }
	h.word = max(slices.IndexFunc(h.words, is), 0)
	for i, t := range h.words {
		if other := (&hinter{src: p.src, words: h.words, word: i}); is(t) && other.operand(-1, -1) == q.Left.String() {
			h = other
			break
		}
	}
	left := h.operand(-1, -1)
	return Doubt{
		Offset:     h.token(0).start,
		Rule:       RuleAssignment,
		Message:    fmt.Sprintf("a single = sets %s and compares nothing", left),
		Suggestion: fmt.Sprintf("to compare, write: %s == %s", left, h.operand(1, 1)),
	}
}

// doubtAssignment reports q if it is an assignment.
func (p *Program) doubtAssignment(q *gojq.Query) {
	const limit = 20
	if q = bare(q); q != nil && q.Op == gojq.OpAssign && len(p.doubts) < limit {
		p.doubts = append(p.doubts, p.assigned(q))
	}
}

// assignments finds assignments in a condition.
func (p *Program) assignments(q *gojq.Query) {
	if q == nil || !strings.Contains(p.src, "=") {
		return
	}
	if q.Op == gojq.OpAnd || q.Op == gojq.OpOr {
		p.doubtAssignment(q.Left)
		p.doubtAssignment(q.Right)
	}
	p.assignments(q.Left)
	p.assignments(q.Right)
	if t := q.Term; t != nil {
		p.assignmentsIn(t)
	}
}

func (p *Program) assignmentsIn(t *gojq.Term) {
	var conditions, others []*gojq.Query
	switch {
	case t.Func != nil && (t.Func.Name == "select" || t.Func.Name == "any" || t.Func.Name == "all"):
		conditions = t.Func.Args
	case t.Func != nil:
		others = t.Func.Args
	case t.If != nil:
		conditions, others = append(conditions, t.If.Cond), append(others, t.If.Then, t.If.Else)
		for _, e := range t.If.Elif {
			conditions, others = append(conditions, e.Cond), append(others, e.Then)
		}
	case t.Array != nil:
		others = append(others, t.Array.Query)
	case t.Object != nil:
		for _, field := range t.Object.KeyVals {
			others = append(others, field.Val)
		}
	case t.Str != nil:
		others = t.Str.Queries
	}
	for _, c := range conditions {
		p.doubtAssignment(c)
		p.assignments(c)
	}
	for _, q := range append(others, t.Query) {
		p.assignments(q)
	}
}

// wordDoubts examines the tokens: some that the author separated belong together in jq, and vice
// versa.
func (p *Program) wordDoubts(known func(string) bool) {
	words := tokens(p.src)
	for i := 1; i < len(words); i++ {
		last, t := words[i-1], words[i]
		between := p.src[last.end():t.start]
		switch {
		case t.kind == fieldToken && last.text == "not" && between != "":
			p.add(last, "write: ("+t.text+" | not)", "not applies to the value before it: this does not negate %s", t.text)
		case t.kind == fieldToken && last.kind == fieldToken && strings.Trim(between, " ") == "" && between != "":
			p.add(t, "", "%s %s is one path, %s%s: is something missing between them?", last.text, t.text, last.text, t.text)
		case t.text == "-" && last.kind == fieldToken && between == "" && i+1 < len(words) && words[i+1].kind == wordToken && words[i+1].start == t.end():
			name := last.text[1:] + "-" + words[i+1].text
			p.add(last, fmt.Sprintf(`for the member %s, write: ."%s"`, name, name), "this subtracts %s from %s", words[i+1].text, last.text)
		case t.kind == fieldToken && last.text == "error" && last.kind == wordToken && between == "" && known("error"):
			p.add(last, "write: $error"+t.text, "error is jq's function that fails; the error that was caught is $error")
		case t.text == ".length" && last.kind == fieldToken && between == "" && strings.HasSuffix(last.text, "s") && !continues(words, i):
			h := &hinter{src: p.src, words: words, word: i}
			p.add(t, "to count, write: "+h.operand(-1, -1)+" | length", "this reads a member called length")
		}
	}
}

// formats finds formats that do not exist. gojq compiles them, and they fail.
func (p *Program) formats() {
	known := []string{"@text", "@json", "@html", "@uri", "@urid", "@csv", "@tsv", "@sh", "@base64", "@base64d"}
	for _, t := range tokens(p.src) {
		if strings.HasPrefix(t.text, "@") && t.kind == wordToken && !slices.Contains(known, t.text) {
			p.add(t, "use one of "+strings.Join(known, ", "), "jq has no format %s: this always fails", t.text)
		}
	}
}

// continues reports whether a path continues after one of its tokens.
func continues(words []token, i int) bool {
	return i+1 < len(words) && words[i+1].start == words[i].end() && (words[i+1].kind == fieldToken || words[i+1].text == "[")
}

func (p *Program) add(at token, suggestion, format string, args ...any) {
	p.doubts = append(p.doubts, Doubt{at.start, RuleMeaning, fmt.Sprintf(format, args...), suggestion})
}

// Members returns the names that the expression reads as .name, each once. There are none if it
// may read them from an object that it makes itself.
func (p *Program) Members() (names []string) {
	makers := []string{"to_entries", "with_entries", "from_entries", "match", "capture", "sub", "gsub", "fromjson", "setpath", "INDEX"}
	for _, t := range tokens(p.src) {
		if t.text == "{" || t.kind == wordToken && slices.Contains(makers, t.text) {
			return nil
		}
		if t.kind == fieldToken && !slices.Contains(names, t.text[1:]) {
			names = append(names, t.text[1:])
		}
	}
	return names
}

// ReadsData reports whether src is certainly an expression that reads data and not a plain word: a
// path, or an operation on one.
func ReadsData(src string, known func(string) bool) bool {
	const longest = 1000
	if len(src) > longest {
		return false
	}
	reads := false
	for _, t := range tokens(src) {
		reads = reads || t.kind == fieldToken || t.kind == variableToken
	}
	if !reads {
		return false
	}
	_, err := Compile(src, known)
	return err == nil
}
