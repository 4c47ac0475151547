package expr

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/budget"
)

// A compiled expression pays for all of its work. gojq pays one step for an operator or a call of a
// function, however large its operands are. So these are replaced by functions of package budget, or
// preceded by them, which get the meter as an argument. The rules for functions and updates are in
// rewrite.jq; those for the other operators, for strings and for indices are here:
//
//	.a + .b         __add(.a; .b; $__meter)
//	.[$i]           (. | __chars($__meter))[__key($i; $__meter)]
//	"at \(.a)"      __add("at "; .a | __deep(1; $__meter) | tostring; $__meter)

//go:embed rewrite.jq
var rewriteSource string

// rules holds the definitions of rewrite.jq by their signatures.
//
//nolint:gochecknoglobals // computed once, then read-only
var rules = definitions("rewrite.jq", &rewriteSource)

// rewritten returns what the rule with a signature makes of its arguments; nil if there is no such rule.
func rewritten(sign string, args ...*gojq.Query) *gojq.Query {
	source, ok := rules()[sign]
	if !ok {
		return nil
	}
	rule, by := parsed(source), map[string]*gojq.Query{}
	for i, name := range rule.Args {
		by[name] = args[i]
	}
	return substituted(rule.Body, by)
}

// substituted returns a rule with its parameters replaced. Rules have them only in pipes, as arguments,
// and as functions of their own.
func substituted(q *gojq.Query, by map[string]*gojq.Query) *gojq.Query {
	if q == nil {
		return nil
	}
	for _, def := range q.FuncDefs {
		def.Body = substituted(def.Body, by)
	}
	q.Left, q.Right = substituted(q.Left, by), substituted(q.Right, by)
	if q.Term == nil || q.Term.Func == nil {
		return q
	}
	if arg := by[q.Term.Func.Name]; arg != nil {
		return arg
	}
	for i, arg := range q.Term.Func.Args {
		q.Term.Func.Args[i] = substituted(arg, by)
	}
	return q
}

func wrapped(t *gojq.Term) *gojq.Query { return &gojq.Query{Term: t} }

func called(name string, args ...*gojq.Query) *gojq.Query {
	return wrapped(&gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}})
}

func variable(name string) *gojq.Query { return called("$" + name) }

func identity() *gojq.Query { return wrapped(&gojq.Term{Type: gojq.TermTypeIdentity}) }

func parenthesised(q *gojq.Query) *gojq.Term { return &gojq.Term{Type: gojq.TermTypeQuery, Query: q} }

func piped(left, right *gojq.Query) *gojq.Query {
	return &gojq.Query{Left: left, Op: gojq.OpPipe, Right: right}
}

// metered returns a call of one of package budget's functions.
func metered(name string, args ...*gojq.Query) *gojq.Query {
	return called(name, append(args, variable(meterName))...)
}

// deep returns the guard that charges for all parts of a value.
func deep() *gojq.Query {
	return metered("__deep", wrapped(&gojq.Term{Type: gojq.TermTypeNumber, Number: "1"}))
}

// operation replaces gojq's operators with ours.
func operation(q *gojq.Query) {
	var made *gojq.Query
	name := budget.Operator(q.Op)
	switch {
	case q.Op == gojq.OpModify:
		made = rewritten("__modify/2", q.Left, q.Right)
	case q.Op == gojq.OpAssign:
		made = rewritten("__assign/2", q.Left, q.Right)
	case q.Op == gojq.OpUpdateAlt:
		made = rewritten("__default/2", q.Left, q.Right)
	case name == "":
		return
	case q.Op < gojq.OpAssign:
		made = metered(name, q.Left, q.Right)
	default:
		made = rewritten("__change/3", q.Left, q.Right, metered(name, identity(), variable("__value")))
	}
	q.Left, q.Right, q.Op, q.Patterns = nil, nil, 0, nil
	q.Term = parenthesised(made)
}

// functionCall applies the rule for a call of a jq function, if there is one.
func functionCall(t *gojq.Term) {
	if made := rewritten(signature(t.Func.Name, len(t.Func.Args)), t.Func.Args...); made != nil {
		t.Type, t.Func, t.Query = gojq.TermTypeQuery, nil, made
	}
}

// interpolation returns the string that gojq would compose of a string's parts, each in a format,
// and charges for each.
func interpolation(str *gojq.String, format string) *gojq.Query {
	var text *gojq.Query
	for _, part := range str.Queries {
		if part.Term == nil || part.Term.Str == nil {
			write := rewritten("tostring/0")
			if format != "" {
				write = piped(deep(), wrapped(&gojq.Term{Type: gojq.TermTypeFormat, Format: format}))
			}
			part = piped(part, write)
		}
		if text == nil {
			text = part
		} else {
			text = metered("__add", text, part)
		}
	}
	return text
}

// interpolated reports whether a string has computed parts.
func interpolated(str *gojq.String) bool { return str != nil && len(str.Queries) > 0 }

// positions guards a term's suffixes: gojq counts positions in a string from its start, and copies
// everything that it iterates over.
func positions(t *gojq.Term) {
	if interpolated(t.Str) {
		*t = gojq.Term{Type: gojq.TermTypeQuery, SuffixList: t.SuffixList, Query: interpolation(t.Str, t.Format)}
	}
	if t.Type == gojq.TermTypeFormat && t.Str == nil {
		base := *t
		base.SuffixList = nil
		*t = gojq.Term{
			Type: gojq.TermTypeQuery, SuffixList: t.SuffixList,
			Query: piped(deep(), wrapped(&base)),
		}
	}
	if t.Type == gojq.TermTypeIndex && counted(t.Index) {
		suffix := &gojq.Suffix{Index: t.Index}
		*t = gojq.Term{Type: gojq.TermTypeIdentity, SuffixList: append([]*gojq.Suffix{suffix}, t.SuffixList...)}
	}
	for i, v := range slices.Backward(t.SuffixList) {
		if v.Optional {
			*t = gojq.Term{Type: gojq.TermTypeQuery, SuffixList: t.SuffixList[i+1:], Query: optional(t, i)}
			return
		}
		guard := "__chars"
		if v.Iter {
			if guard = "__each"; i == 0 && t.Func != nil && reserved(t.Func.Name) {
				break // our own functions charge for themselves
			}
		} else if !counted(v.Index) {
			continue
		}
		base := *t
		base.SuffixList = base.SuffixList[:i:i]
		positions(&base)
		*t = gojq.Term{
			Type: gojq.TermTypeQuery, SuffixList: t.SuffixList[i:],
			Query: piped(wrapped(&base), metered(guard)),
		}
		return
	}
	if t.Type == gojq.TermTypeObject && len(t.Object.KeyVals) > 0 {
		base := *t
		base.SuffixList = nil
		*t = gojq.Term{
			Type: gojq.TermTypeQuery, SuffixList: t.SuffixList,
			Query: piped(wrapped(&base), metered("__object")),
		}
	}
}

// optional returns a term up to its i-th suffix, a ?, with a guard. The ? applies to the
// suffix before it, or to the whole term if there is none.
func optional(t *gojq.Term, i int) *gojq.Query {
	base := *t
	if i == 0 || t.SuffixList[i-1].Optional {
		base.SuffixList = t.SuffixList[:i:i]
		positions(&base)
		return tried(wrapped(&base), nil)
	}
	base.SuffixList = t.SuffixList[: i-1 : i-1]
	positions(&base)
	last := &gojq.Term{Type: gojq.TermTypeIdentity, SuffixList: t.SuffixList[i-1 : i : i]}
	positions(last)
	return piped(wrapped(&base), tried(wrapped(last), nil))
}

// tried returns try body catch handler, which charges for the error; without a handler
// it yields nothing.
func tried(body, handler *gojq.Query) *gojq.Query {
	if handler == nil {
		handler = called("empty")
	}
	caught := piped(metered("__caught"), wrapped(parenthesised(handler)))
	return wrapped(&gojq.Term{Type: gojq.TermTypeTry, Try: &gojq.Try{Body: body, Catch: wrapped(parenthesised(caught))}})
}

// counted reports whether an index may be a position in a string.
func counted(i *gojq.Index) bool { return i != nil && i.Name == "" && i.Str == nil }

// keyed rejects lists as indices.
func keyed(i *gojq.Index) {
	if !counted(i) || i.IsSlice {
		return
	}
	if t := i.Start.Term; t != nil && len(t.SuffixList) == 0 {
		switch t.Type {
		case gojq.TermTypeNumber, gojq.TermTypeUnary:
			return
		case gojq.TermTypeString:
			if len(t.Str.Queries) == 0 {
				return
			}
		default:
		}
	}
	i.Start = metered("__key", i.Start)
}

// reserved reports whether a name is reserved for functions and variables of this package.
func reserved(name string) bool { return strings.HasPrefix(strings.TrimPrefix(name, "$"), "__") }
