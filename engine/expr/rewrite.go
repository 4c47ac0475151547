package expr

import (
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/budget"
)

// A compiled expression pays for all of its work. gojq pays one step for an operator or a call of a
// function, however large its operands are. So these are replaced by functions of package budget, or
// preceded by them, which get the meter as an argument:
//
//	.a + .b         __add(.a; .b; $__meter)
//	keys            __shallow($__meter) | keys
//	sort_by(.a)     __each($__meter) | sort_by(.a | __sort($__meter))
//	.[$i]           (. | __chars($__meter))[__key($i; $__meter)]
//	"at \(.a)"      __add("at "; .a | __deep(1; $__meter) | tostring; $__meter)
//	.a = 1          1 as $__value | __update($__meter) as $__update | _assign(getpath(__path(path(.a); $__update)); $__value)

func wrapped(t *gojq.Term) *gojq.Query { return &gojq.Query{Term: t} }

func called(name string, args ...*gojq.Query) *gojq.Query {
	return wrapped(&gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}})
}

func variable(name string) *gojq.Query { return called("$" + name) }

func identity() *gojq.Query { return wrapped(&gojq.Term{Type: gojq.TermTypeIdentity}) }

func numeral(n int) *gojq.Query {
	return wrapped(&gojq.Term{Type: gojq.TermTypeNumber, Number: strconv.Itoa(n)})
}

func parenthesised(q *gojq.Query) *gojq.Term { return &gojq.Term{Type: gojq.TermTypeQuery, Query: q} }

func piped(left, right *gojq.Query) *gojq.Query {
	return &gojq.Query{Left: left, Op: gojq.OpPipe, Right: right}
}

// binding returns the query value as $name | body.
func binding(value *gojq.Query, name string, body *gojq.Query) *gojq.Query {
	q := piped(value, body)
	q.Patterns = []*gojq.Pattern{{Name: "$" + name}}
	return q
}

// metered returns a call of one of package budget's functions.
func metered(name string, args ...*gojq.Query) *gojq.Query {
	return called(name, append(args, variable(meterName))...)
}

// guarded returns q, with a guard on its results.
func guarded(q *gojq.Query, name string, args ...*gojq.Query) *gojq.Query {
	return wrapped(parenthesised(piped(q, metered(name, args...))))
}

// operation replaces gojq's operators with ours.
func operation(q *gojq.Query) {
	var made *gojq.Query
	switch q.Op {
	case gojq.OpModify:
		made = modification(q)
	case gojq.OpAssign:
		made = binding(q.Right, "__value", updating("_assign", q.Left, variable("__value")))
	case gojq.OpUpdateAlt:
		made = binding(q.Right, "__value",
			updating("_modify", q.Left, called("_alternative", identity(), variable("__value"))))
	default:
		switch name := budget.Operator(q.Op); {
		case name == "":
			return
		case q.Op < gojq.OpAssign:
			made = metered(name, q.Left, q.Right)
		default:
			made = binding(q.Right, "__value",
				updating("_modify", q.Left, metered(name, identity(), variable("__value"))))
		}
	}
	q.Left, q.Right, q.Op, q.Patterns = nil, nil, 0, nil
	q.Term = parenthesised(made)
}

// modification returns left |= right. If right has no result, the value is marked and deleted at
// the end, or left unset if there was none.
func modification(q *gojq.Query) *gojq.Query {
	made := parsed(`def __outer: def __left: .; def __right: .; __update($__meter) as $__update
		| _modify(
			getpath(__path(path(__left); $__update) | if __found($__update) or
				(label $__out | ((null | __right | true), false) | ., break $__out) then . else empty end);
			(__sweep($__meter) | __right), __deleted($__update))
		| __sweep($__meter);`).Body
	made.FuncDefs[0].Body, made.FuncDefs[1].Body = q.Left, q.Right
	return made
}

// updating calls gojq's update function, and first charges for each path.
func updating(function string, left, right *gojq.Query) *gojq.Query {
	target := called("getpath", called("__path", called("path", left), variable("__update")))
	return binding(metered("__update"), "__update", called(function, target, right))
}

// functionCall inserts guards around a call of a jq function.
func functionCall(t *gojq.Term) {
	f := t.Func
	replacement := special(f)
	if replacement == nil {
		name, args := inputGuard(signature(f.Name, len(f.Args)))
		if name == "" {
			return
		}
		replacement = piped(metered(name, args...), called(f.Name, f.Args...))
	}
	t.Type, t.Func, t.Query = gojq.TermTypeQuery, nil, replacement
}

// special handles functions whose cost depends on their arguments or results.
func special(f *gojq.Func) *gojq.Query {
	switch sign := signature(f.Name, len(f.Args)); sign {
	case "now/0":
		return variable(nowName)
	case "path/1":
		return guarded(called(f.Name, f.Args[0]), "__shallow")
	case "getpath/1":
		return called(f.Name, guarded(f.Args[0], "__shallow"))
	case "setpath/2":
		return called(f.Name, metered("__setpath", f.Args[0]), f.Args[1])
	case "delpaths/1":
		return metered("__delpaths", f.Args[0])
	case "error/1":
		return called(f.Name, guarded(f.Args[0], "__deep", numeral(1)))
	case "contains/1", "inside/1", "index/1", "rindex/1", "indices/1", "join/1":
		return binding(f.Args[0], "__value",
			piped(metered("__pair", variable("__value")), called(f.Name, variable("__value"))))
	case "bsearch/1":
		return piped(metered("__deep", numeral(1)), called(f.Name, guarded(f.Args[0], "__deep", numeral(2))))
	case "sort_by/1", "group_by/1", "unique_by/1", "min_by/1", "max_by/1":
		return piped(metered("__each"), called(f.Name, guarded(f.Args[0], "__sort")))
	case "jn/2", "yn/2":
		return called(f.Name, metered("__order", f.Args[0]), f.Args[1])
	case "strptime/1", "strftime/1":
		return piped(metered("__date"), called(f.Name, guarded(f.Args[0], "__date")))
	default:
		return nil
	}
}

// inputGuard returns the guard before a function whose cost depends on its input.
func inputGuard(sign string) (name string, args []*gojq.Query) {
	switch sign {
	case "to_entries/0":
		return "__entries", nil
	case "length/0", "keys/0", "reverse/0", "ascii_downcase/0", "ascii_upcase/0",
		"ltrimstr/1", "rtrimstr/1", "trimstr/1", "ltrim/0", "rtrim/0", "trim/0", "startswith/1", "endswith/1":
		return "__shallow", nil
	case "tojson/0", "tostring/0", "flatten/0", "flatten/1", "implode/0", "error/0", "add/0", "format/1":
		return "__deep", []*gojq.Query{numeral(1)}
	case "min/0", "max/0":
		return "__deep", []*gojq.Query{numeral(2)}
	case "explode/0", "split/1":
		return "__deep", []*gojq.Query{numeral(2 * budget.Grain)}
	case "sort/0", "unique/0":
		return "__sort", nil
	case "transpose/0":
		return "__cells", nil
	case "tonumber/0":
		return "__numeral", nil
	case "fromdate/0", "fromdateiso8601/0", "mktime/0", "gmtime/0", "todate/0", "todateiso8601/0":
		return "__date", nil
	default:
		return "", nil
	}
}

// interpolation returns the string that gojq would compose of a string's parts, each in a format,
// and charges for each.
func interpolation(str *gojq.String, format string) *gojq.Query {
	var text *gojq.Query
	for _, part := range str.Queries {
		if part.Term == nil || part.Term.Str == nil {
			write := called("tostring")
			if format != "" {
				write = wrapped(&gojq.Term{Type: gojq.TermTypeFormat, Format: format})
			}
			part = piped(guarded(part, "__deep", numeral(1)), write)
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
			Query: piped(metered("__deep", numeral(1)), wrapped(&base)),
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
