package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/budget"
)

const (
	nowName   = "__now"
	meterName = "__meter"
)

// scope is a list of the names bound around a part of an expression, innermost first: variables as
// "$x", functions as "f/1".
type scope struct {
	name  string
	outer *scope
}

func (s *scope) with(names ...string) *scope {
	for _, name := range names {
		s = &scope{name: name, outer: s}
	}
	return s
}

func (s *scope) has(name string) bool {
	for ; s != nil; s = s.outer {
		if s.name == name {
			return true
		}
	}
	return false
}

// resolver walks an expression once: it collects the free variables, rejects access to the
// environment, and inserts the guards.
type resolver struct {
	program *Program
	known   func(name string) bool
	errs    []error

	defs     []*gojq.FuncDef // used definitions of the prelude, each after those it uses
	included map[string]bool
	unknown  map[string]bool // signatures of functions that do not exist
	own      bool            // walking through the prelude
	shelter  int             // number of enclosing expressions that have an alternative for a missing value
	depth    int             // number of enclosing operators and arguments
}

func (p *Program) resolve(query *gojq.Query, known func(name string) bool) error {
	r := &resolver{program: p, known: known, included: map[string]bool{}, unknown: map[string]bool{}}
	r.query(query, nil)
	query.FuncDefs = append(r.defs, query.FuncDefs...)
	slices.Sort(p.vars)
	slices.Sort(p.secrets)
	return errors.Join(r.errs...)
}

// maxErrors is the maximum number of errors that are reported.
const maxErrors = 250

// fail records an error, unless an equal one is already recorded.
func (r *resolver) fail(err error) {
	known := func(e error) bool { return e.Error() == err.Error() }
	if len(r.errs) < maxErrors && !slices.ContainsFunc(r.errs, known) {
		r.errs = append(r.errs, err)
	}
}

func (r *resolver) refuse(message string) { r.fail(&SyntaxError{Message: message}) }

func (r *resolver) queries(s *scope, queries ...*gojq.Query) {
	for _, q := range queries {
		r.query(q, s)
	}
}

func (r *resolver) query(q *gojq.Query, s *scope) {
	if q == nil {
		return
	}
	if q.Meta != nil || len(q.Imports) > 0 {
		r.refuse("modules cannot be used")
	}
	for _, def := range q.FuncDefs {
		s = r.define(def, s)
	}
	r.term(q.Term, s)
	r.operands(q, s)
	operation(q)
}

// maxDepth bounds the depth of operators and arguments within each other, and the indices after one
// value. gojq searches all scopes around each of them, or all variables of the scope, for its function
// and its meter.
const maxDepth = 2000

func (r *resolver) tooDeep() {
	r.refuse(fmt.Sprintf("more than %d operators, calls or indices within each other", maxDepth))
}

// deeper walks through operands or arguments, unless they are too deep.
func (r *resolver) deeper(walk func()) {
	if r.depth >= maxDepth {
		r.tooDeep()
		return
	}
	r.depth++
	walk()
	r.depth--
}

func (r *resolver) operands(q *gojq.Query, s *scope) {
	switch {
	case q.Op == gojq.OpAlt:
		r.sheltered(q.Left, s)
		r.query(q.Right, s)
	case budget.Operator(q.Op) != "" || q.Op >= gojq.OpAssign:
		r.deeper(func() { r.queries(s, q.Left, q.Right) })
	default:
		r.query(q.Left, s)
		r.query(q.Right, r.patterns(q.Patterns, s))
	}
}

// sheltered walks through a part that has an alternative if it fails or yields nothing.
func (r *resolver) sheltered(q *gojq.Query, s *scope) {
	r.shelter++
	r.query(q, s)
	r.shelter--
}

// define returns s with a function, which may call itself.
func (r *resolver) define(def *gojq.FuncDef, s *scope) *scope {
	if reserved(def.Name) && !r.own {
		r.refuse("names of functions cannot begin with __")
	}
	s = s.with(signature(def.Name, len(def.Args)))
	body := s
	for i, arg := range def.Args {
		if name, isValue := strings.CutPrefix(arg, "$"); isValue {
			body = body.with(arg, signature(name, 0))
			continue
		}
		body = body.with(signature(arg, 0))
		def.Args[i] = r.renamed(arg, 0)
	}
	def.Name = r.renamed(def.Name, len(def.Args))
	r.query(def.Body, body)
	return s
}

// renamed returns the name under which a function of the user is compiled. It differs from the written
// one if the guards call jq's function with this signature, or if gojq uses such names itself.
func (r *resolver) renamed(name string, args int) string {
	switch sign := signature(name, args); {
	case r.own, reserved(name):
		return name
	case sign == "path/1", sign == "getpath/1", sign == "empty/0", strings.HasPrefix(name, "_"):
		return "__own_" + name
	default:
		return name
	}
}

func signature(name string, args int) string { return name + "/" + strconv.Itoa(args) }

// patterns returns s with the variables that "as" binds.
func (r *resolver) patterns(patterns []*gojq.Pattern, s *scope) *scope {
	for _, p := range patterns {
		s = r.pattern(p, s)
	}
	return s
}

func (r *resolver) pattern(p *gojq.Pattern, s *scope) *scope {
	if p == nil {
		return s
	}
	if p.Name != "" {
		return s.with(p.Name)
	}
	s = r.patterns(p.Array, s)
	for _, field := range p.Object {
		if strings.HasPrefix(field.Key, "$") {
			s = s.with(field.Key)
		}
		r.str(field.KeyString, s)
		if interpolated(field.KeyString) {
			field.KeyQuery, field.KeyString = interpolation(field.KeyString, ""), nil
		} else if field.KeyQuery != nil {
			r.query(field.KeyQuery, s)
			field.KeyQuery = metered("__text", field.KeyQuery)
		}
		s = r.pattern(field.Val, s)
	}
	return s
}

func (r *resolver) term(t *gojq.Term, s *scope) {
	switch {
	case t == nil:
		return
	case len(t.SuffixList) > maxDepth:
		r.tooDeep()
		return
	}
	if t.Type == gojq.TermTypeRecurse {
		t.Type, t.Func = gojq.TermTypeFunc, &gojq.Func{Name: "__recurse"}
		r.include("__recurse/0", `def __recurse: def r: ., (if __parent($__meter) then .[] | r else empty end); r;`)
		s = s.with("__recurse/0")
	}
	r.secret(t, s)
	r.index(t.Index, s)
	r.object(t.Object, s)
	r.str(t.Str, s)
	r.control(t, s)
	r.loop(t, s)
	if t.Array != nil {
		r.query(t.Array.Query, s)
	}
	if t.Unary != nil {
		r.term(t.Unary.Term, s)
	}
	r.query(t.Query, s)
	for _, suffix := range t.SuffixList {
		r.index(suffix.Index, s)
	}
	r.call(t, s)
	positions(t)
}

func (r *resolver) control(t *gojq.Term, s *scope) {
	if t.If != nil {
		r.queries(s, t.If.Cond, t.If.Then, t.If.Else)
		for _, branch := range t.If.Elif {
			r.queries(s, branch.Cond, branch.Then)
		}
	}
	if t.Try != nil {
		r.sheltered(t.Try.Body, s)
		r.query(t.Try.Catch, s)
		t.Try = tried(t.Try.Body, t.Try.Catch).Term.Try
	}
	if t.Label != nil {
		r.query(t.Label.Body, s)
	}
}

func (r *resolver) loop(t *gojq.Term, s *scope) {
	if t.Reduce != nil {
		r.queries(s, t.Reduce.Query, t.Reduce.Start)
		r.query(t.Reduce.Update, r.patterns(t.Reduce.Patterns, s))
	}
	if t.Foreach != nil {
		r.queries(s, t.Foreach.Query, t.Foreach.Start)
		r.queries(r.patterns(t.Foreach.Patterns, s), t.Foreach.Update, t.Foreach.Extract)
	}
}

func (r *resolver) index(i *gojq.Index, s *scope) {
	if i == nil {
		return
	}
	r.str(i.Str, s)
	if interpolated(i.Str) {
		i.Start, i.Str = interpolation(i.Str, ""), nil
	} else {
		r.queries(s, i.Start, i.End)
	}
	keyed(i)
}

func (r *resolver) str(str *gojq.String, s *scope) {
	if str != nil {
		r.queries(s, str.Queries...)
	}
}

func (r *resolver) object(o *gojq.Object, s *scope) {
	if o == nil {
		return
	}
	for _, field := range o.KeyVals {
		if strings.HasPrefix(field.Key, "$") {
			r.variable(field.Key, s)
		}
		r.str(field.KeyString, s)
		r.queries(s, field.KeyQuery, field.Val)
		if interpolated(field.KeyString) {
			field.KeyQuery, field.KeyString = interpolation(field.KeyString, ""), nil
		}
	}
}

func (r *resolver) call(t *gojq.Term, s *scope) {
	f := t.Func
	switch {
	case f == nil:
		return
	case strings.HasPrefix(f.Name, "$"):
		r.variable(f.Name, s)
		return
	}
	sign := signature(f.Name, len(f.Args))
	unknown := !r.own && !s.has(sign) && refused(f.Name) == "" && !exists(f.Name, len(f.Args))
	if unknown && !r.unknown[sign] && len(r.errs) < maxErrors {
		r.unknown[sign] = true
		r.fail(r.unknownFunction(f))
	}
	if len(f.Args) > 0 {
		r.deeper(func() { r.queries(s, f.Args...) })
	}
	if s.has(sign) {
		f.Name = r.renamed(f.Name, len(f.Args))
	}
	if unknown || s.has(sign) || r.own && strings.HasPrefix(f.Name, "_") {
		return
	}
	if why := refused(f.Name); why != "" {
		e := &SyntaxError{Offset: callAt(r.program.src, f.Name, len(f.Args)), Message: f.Name + " " + why}
		if r.known(f.Name) {
			e.Suggestion = fmt.Sprintf("did you mean %q?", "$"+f.Name)
		}
		r.fail(e)
		return
	}
	if source, ok := prelude()[sign]; ok {
		r.include(sign, source)
		return
	}
	functionCall(t)
}

// include adds a definition of the prelude to the expression, after those it uses.
func (r *resolver) include(sign, source string) {
	if r.included[sign] {
		return
	}
	r.included[sign] = true
	def, outer := parsed(source), r.own
	r.own = true
	r.define(def, nil)
	r.own = outer
	r.defs = append(r.defs, def)
}

func (r *resolver) variable(name string, s *scope) {
	if s.has(name) || r.own {
		return
	}
	name = name[1:]
	switch {
	case slices.Contains(r.program.vars, name):
	case name == "ENV", reserved(name), !r.known(name):
		r.fail(&UnknownVariable{Name: name})
	default:
		r.program.vars = append(r.program.vars, name)
	}
}

// refused explains why a jq function is not available.
func refused(name string) string {
	switch name {
	case "input", "inputs", "input_filename", "input_line_number":
		return "cannot be used: there is no other input"
	case "env":
		return "cannot be used: expressions have no access to the environment"
	case "debug", "stderr", "halt", "halt_error":
		return "cannot be used in a workflow"
	case "get_search_list", "modulemeta":
		return "cannot be used: there are no modules"
	case "keys_unsorted":
		return "cannot be used: the keys of objects are sorted: use keys"
	case "localtime", "strflocaltime":
		return "cannot be used: it depends on the machine's time zone"
	default:
		if strings.HasPrefix(name, "_") {
			return "is not a function"
		}
		return ""
	}
}

// secret records that a term reads a constant secret so that a missing one can be
// distinguished from null.
func (r *resolver) secret(t *gojq.Term, s *scope) {
	if t.Type != gojq.TermTypeFunc || t.Func.Name != "$secrets" || s.has("$secrets") || len(t.SuffixList) == 0 {
		return
	}
	index := t.SuffixList[0].Index
	optional := func(s *gojq.Suffix) bool { return s.Optional }
	if index == nil || r.shelter > 0 || slices.ContainsFunc(t.SuffixList, optional) {
		return
	}
	if name := constantKey(index); name != "" && !slices.Contains(r.program.secrets, name) {
		r.program.secrets = append(r.program.secrets, name)
	}
}

// constantKey returns the key of .key, ."key" and ["key"].
func constantKey(i *gojq.Index) string {
	str := i.Str
	if i.Name != "" || i.IsSlice {
		return i.Name
	}
	if str == nil && i.Start != nil && i.Start.Term != nil && len(i.Start.Term.SuffixList) == 0 {
		str = i.Start.Term.Str
	}
	if str == nil || len(str.Queries) > 0 {
		return ""
	}
	return str.Str
}
