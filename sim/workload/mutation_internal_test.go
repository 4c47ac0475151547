package workload

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The changes that mutations make. @ is the source of the changed node, $ is true while the
// mutation is active, zeros are the zero values of the function's results, and @{path} is
// the source of another node of the function.
const (
	never    = "(@) && !$"
	always   = "(@) || $"
	removed  = "if !$ {\n@\n}"
	returned = "if $ {\nreturn zeros\n}\n@"
	zeroed   = "plantedOr($, @)"
)

func replaced(by string) string   { return "plantedOr($, @, " + by + ")" }
func added(number string) string  { return "plantedSum($, @, " + number + ")" }
func scaled(factor string) string { return "plantedProduct($, @, " + factor + ")" }
func preceded(by string) string   { return "if $ {\n" + by + "\n}\n@" }

// forgotten removes members from JSON.
func forgotten(names ...string) string { return fmt.Sprintf("plantedWithout($, @, %#v)", names) }

// helpers is the file that each changed package gets: its parameters are the package name
// and the environment variable with the active mutation.
const helpers = `package %s

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
)

var planted = os.Getenv(%q)

type plantedNumber interface{ ~int | ~int64 | ~float64 }

// plantedOr is the other value, or the zero value, while the mutation is active.
func plantedOr[T any](active bool, value T, other ...T) T {
	if active {
		return append(other, *new(T))[0]
	}
	return value
}

func plantedSum[T plantedNumber](active bool, value, by T) T {
	return plantedOr(active, value, value+by)
}

func plantedProduct[T plantedNumber](active bool, value, by T) T {
	return plantedOr(active, value, value*by)
}

func plantedLastFirst[T any](active bool, list []T) []T {
	n := max(len(list)-1, 0)
	return plantedOr(active, list, slices.Concat(list[n:], list[:n]))
}

func plantedWithout(active bool, text []byte, names []string) []byte {
	var value any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if !active || dec.Decode(&value) != nil {
		return text
	}
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for name, member := range v {
				if slices.Contains(names, name) {
					delete(v, name)
				} else {
					walk(member)
				}
			}
		case []any:
			for _, member := range v {
				walk(member)
			}
		}
	}
	walk(value)
	out, _ := json.Marshal(value)
	return out
}
`

// goPackage is a package of the engine whose nodes have addresses.
//
// An address names a package below engine, a function or method, and a path of nodes:
// "decide machine.retry if 2 call 1" is the first call in the second if statement of
// decide's machine.retry, anywhere in its condition, body or else branch. Nodes are counted
// from 1 in the order in which they begin. Their kinds are
//
//	if, for    a statement; at the end of an address its condition or range
//	case       a clause other than default; at the end its expressions
//	return, call, assign, func, literal
//	&& == +    and the like: a binary expression
//
// and, counted among the immediate parts of the node before them,
//
//	stmt       in a body
//	value      of an assignment, return statement or literal
//	target     of an assignment
//	operand    of a binary expression
//	arg        of a call
type goPackage struct {
	name      string
	fset      *token.FileSet
	sources   map[string][]byte // by path
	functions map[string]*ast.FuncDecl
	edits     map[string][]edit // by path
}

// edit replaces a range of a source with a string in which @ stands for that range.
type edit struct {
	from, to int
	by       string
}

func parsePackage(folder string) (*goPackage, error) {
	p := &goPackage{fset: token.NewFileSet(), sources: map[string][]byte{}, functions: map[string]*ast.FuncDecl{}, edits: map[string][]edit{}}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if p.sources[path], err = os.ReadFile(path); err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(p.fset, path, p.sources[path], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.name = file.Name.Name
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				p.functions[functionName(f)] = f
			}
		}
	}
	if p.name == "" {
		return nil, fmt.Errorf("no Go files in %s", folder)
	}
	return p, nil
}

// functionName returns "function", or "Type.method".
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

var reference = regexp.MustCompile(`@\{([^}]*)\}`)

// plant records the change of a mutation at an address without its package, and returns
// the source that it changes.
func (p *goPackage) plant(mutation, address, change string) (source string, err error) {
	name, path, _ := strings.Cut(address, " ")
	f := p.functions[name]
	if f == nil {
		return "", fmt.Errorf("package %s has no function %s, but %s", p.name, name, strings.Join(alike(name, slices.Sorted(maps.Keys(p.functions))), ", "))
	}
	from, to, err := p.find(f, path)
	if err != nil {
		return "", fmt.Errorf("function %s: %w", name, err)
	}
	change = reference.ReplaceAllStringFunc(change, func(text string) string {
		from, to, otherErr := p.find(f, text[2:len(text)-1])
		if err = errors.Join(err, otherErr); otherErr != nil {
			return ""
		}
		return p.text(from, to)
	})
	if err != nil {
		return "", fmt.Errorf("function %s: %w", name, err)
	}
	change = strings.ReplaceAll(change, "$", fmt.Sprintf("(planted == %q)", mutation))
	change = strings.ReplaceAll(change, "zeros", p.zeros(f))
	at := p.fset.Position(from)
	p.edits[at.Filename] = append(p.edits[at.Filename], edit{at.Offset, p.fset.Position(to).Offset, change})
	return p.text(from, to), nil
}

// text returns the source of a range.
func (p *goPackage) text(from, to token.Pos) string {
	at := p.fset.Position(from)
	return string(p.sources[at.Filename][at.Offset:p.fset.Position(to).Offset])
}

// find returns the range of the node at a path.
func (p *goPackage) find(f *ast.FuncDecl, path string) (from, to token.Pos, err error) {
	var at ast.Node = f
	kind := ""
	for rest := strings.Fields(path); len(rest) > 1; rest = rest[2:] {
		kind = rest[0]
		nodes := nodesOf(at, kind)
		n, err := strconv.Atoi(rest[1])
		if err != nil || n < 1 || n > len(nodes) {
			return 0, 0, fmt.Errorf("%q: there is no %s %s, but%s", path, kind, rest[1], p.listed(kind, nodes))
		}
		at = nodes[n-1]
	}
	from, to = rangeOf(at, kind)
	return from, to, nil
}

// listed lists nodes, one on each line.
func (p *goPackage) listed(kind string, nodes []ast.Node) string {
	var out strings.Builder
	for i, node := range nodes {
		line, _, _ := strings.Cut(p.text(rangeOf(node, kind)), "\n")
		fmt.Fprintf(&out, "\n\t%s %d: %s", kind, i+1, line)
	}
	return cmp.Or(out.String(), " none")
}

// zeros returns the zero values of a function's results.
func (p *goPackage) zeros(f *ast.FuncDecl) string {
	var zeros []string
	if f.Type.Results != nil {
		for _, field := range f.Type.Results.List {
			zero := "*new(" + p.text(field.Type.Pos(), field.Type.End()) + ")"
			zeros = append(zeros, slices.Repeat([]string{zero}, max(len(field.Names), 1))...)
		}
	}
	return strings.Join(zeros, ", ")
}

// nodesOf returns the nodes of a kind within another node.
func nodesOf(within ast.Node, kind string) (nodes []ast.Node) {
	if parts, ok := partsOf(within, kind); ok {
		return parts
	}
	ast.Inspect(within, func(n ast.Node) bool {
		if n != nil && n != within && kindOf(n) == kind {
			nodes = append(nodes, n)
		}
		return true
	})
	slices.SortStableFunc(nodes, func(a, b ast.Node) int { return int(a.Pos() - b.Pos()) })
	return nodes
}

func kindOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.IfStmt:
		return "if"
	case *ast.ForStmt, *ast.RangeStmt:
		return "for"
	case *ast.CaseClause:
		if n.List != nil {
			return "case"
		}
	case *ast.ReturnStmt:
		return "return"
	case *ast.CallExpr:
		return "call"
	case *ast.AssignStmt, *ast.IncDecStmt:
		return "assign"
	case *ast.FuncLit:
		return "func"
	case *ast.CompositeLit:
		return "literal"
	case *ast.BinaryExpr:
		return n.Op.String()
	}
	return ""
}

// partsOf returns the immediate parts of a node; ok is false if kind is not a kind of
// part.
func partsOf(n ast.Node, kind string) (parts []ast.Node, ok bool) {
	switch kind {
	case "stmt":
		switch n := n.(type) {
		case *ast.FuncDecl:
			return asNodes(n.Body.List), true
		case *ast.FuncLit:
			return asNodes(n.Body.List), true
		case *ast.IfStmt:
			return asNodes(n.Body.List), true
		case *ast.ForStmt:
			return asNodes(n.Body.List), true
		case *ast.RangeStmt:
			return asNodes(n.Body.List), true
		case *ast.CaseClause:
			return asNodes(n.Body), true
		}
	case "value":
		switch n := n.(type) {
		case *ast.AssignStmt:
			return asNodes(n.Rhs), true
		case *ast.ReturnStmt:
			return asNodes(n.Results), true
		case *ast.CompositeLit:
			parts := asNodes(n.Elts)
			for i, part := range parts {
				if pair, ok := part.(*ast.KeyValueExpr); ok {
					parts[i] = pair.Value
				}
			}
			return parts, true
		}
	case "target":
		if n, ok := n.(*ast.AssignStmt); ok {
			return asNodes(n.Lhs), true
		}
	case "operand":
		if n, ok := n.(*ast.BinaryExpr); ok {
			return []ast.Node{n.X, n.Y}, true
		}
	case "arg":
		if n, ok := n.(*ast.CallExpr); ok {
			return asNodes(n.Args), true
		}
	}
	return nil, false
}

func asNodes[T ast.Node](list []T) []ast.Node {
	nodes := make([]ast.Node, len(list))
	for i, n := range list {
		nodes[i] = n
	}
	return nodes
}

// rangeOf returns the range that changes for a node at the end of an address.
func rangeOf(n ast.Node, kind string) (from, to token.Pos) {
	switch n := n.(type) {
	case *ast.IfStmt:
		if kind == "if" {
			return n.Cond.Pos(), n.Cond.End()
		}
	case *ast.ForStmt:
		if kind == "for" && n.Cond != nil {
			return n.Cond.Pos(), n.Cond.End()
		}
	case *ast.RangeStmt:
		if kind == "for" {
			return n.X.Pos(), n.X.End()
		}
	case *ast.CaseClause:
		if kind == "case" {
			return n.List[0].Pos(), n.List[len(n.List)-1].End()
		}
	}
	return n.Pos(), n.End()
}

// edited returns a source with all edits applied. Two edits are either nested or
// disjoint.
func edited(source []byte, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	var render func(from, to int, edits []edit) string
	render = func(from, to int, edits []edit) string {
		var text strings.Builder
		for len(edits) > 0 {
			outer := edits[0]
			n := 1
			for n < len(edits) && edits[n].from < outer.to {
				n++
			}
			text.Write(source[from:outer.from])
			text.WriteString(strings.ReplaceAll(outer.by, "@", render(outer.from, outer.to, edits[1:n])))
			from, edits = outer.to, edits[n:]
		}
		text.Write(source[from:to])
		return text.String()
	}
	return render(0, len(source), edits)
}

// alike returns the names that resemble another one, or all if none does.
func alike(name string, names []string) []string {
	last := strings.ToLower(name[strings.LastIndex(name, ".")+1:])
	similar := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		n = strings.ToLower(n[strings.LastIndex(n, ".")+1:])
		return !strings.Contains(n, last) && !strings.Contains(last, n) && !strings.HasPrefix(n, last[:min(3, len(last))])
	})
	if len(similar) == 0 {
		return names
	}
	return similar
}
