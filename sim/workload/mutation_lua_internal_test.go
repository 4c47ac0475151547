package workload

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"flunq.io/flunq/sim"
)

// Nodes of Lua scripts have addresses like those of Go, see goPackage: "claim if 2" is the
// condition of the second if or elseif of claimScript (or of the constant claim, or of
// claim.lua). Their kinds are
//
//	function name   from "function" to "end"
//	if, for         a condition; what a loop iterates over
//	return          a statement
//	table           a constructor
//	XADD, HGET      a call of redis.call or redis.pcall with this command
//	unpack          and the like: a call of this function
//	~= ==           and the like: an operator
//	arg             of the call before it
//
// In a change, @ is the source of the node.

// scriptBug is a bug in the scripts of the engine.
type scriptBug struct {
	name    string
	on      string   // a document, or the beginning of a workload, that shows it
	changes []string // addresses, each followed by its replacement

	// Commands that are sent before one of the scripts.
	before string
	ahead  func(args []any) [][]any
}

// planted returns the bug, after checking that the scripts contain what it changes.
func (b scriptBug) planted(t *testing.T) *sim.Bug {
	t.Helper()
	parts, err := scriptParts()
	if err != nil {
		t.Fatal(err)
	}
	edits := map[string][]edit{}
	for i := 0; i < len(b.changes); i += 2 {
		name, path, _ := strings.Cut(b.changes[i], " ")
		text, ok := parts[name]
		if !ok {
			t.Fatalf("there is no script %s, but %s", name, strings.Join(alike(name, slices.Sorted(maps.Keys(parts))), ", "))
		}
		from, to, err := findLua(text, path)
		if err != nil {
			t.Fatalf("script %s: %v", name, err)
		}
		edits[text] = append(edits[text], edit{from, to, b.changes[i+1]})
	}
	changed := map[string]string{}
	for text, edits := range edits {
		changed[text] = edited([]byte(text), edits)
	}
	out := &sim.Bug{Script: func(source string) string {
		for text, by := range changed {
			source = strings.Replace(source, text, by, 1)
		}
		return source
	}}
	if text := parts[b.before]; b.ahead != nil {
		out.Ahead = func(source string, args []any) [][]any {
			if !strings.Contains(source, text) && !strings.Contains(source, cmp.Or(changed[text], text)) {
				return nil
			}
			return b.ahead(args)
		}
	}
	return out
}

// scriptParts returns the Lua scripts of the engine by name: files, and constants and
// variables without the suffix Script.
var scriptParts = sync.OnceValues(func() (map[string]string, error) {
	parts := map[string]string{}
	err := filepath.WalkDir("../../engine", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		switch filepath.Ext(path) {
		case ".lua":
			text, err := os.ReadFile(path)
			parts[strings.TrimSuffix(filepath.Base(path), ".lua")] = string(text)
			return err
		case ".go":
			return goScripts(parts, path)
		default:
			return nil
		}
	})
	return parts, err
})

// goScripts finds the longest string literal in the value of each package-level declaration.
func goScripts(parts map[string]string, path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			longest := ""
			ast.Inspect(value, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, _ := strconv.Unquote(literal.Value)
					if len(text) > len(longest) {
						longest = text
					}
				}
				return true
			})
			if strings.Contains(longest, "redis.") {
				parts[strings.TrimSuffix(value.Names[0].Name, "Script")] = longest
			}
		}
	}
	return nil
}

// luaNode is a range of tokens.
type luaNode struct{ from, to int }

// luaScript is a tokenized script.
type luaScript struct {
	text   string
	tokens [][]int // from, to
}

var luaToken = regexp.MustCompile(`--[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[A-Za-z_][\w.]*|[0-9][\w.]*|\.{2,3}|[=~<>]=|\S`)

func findLua(text, path string) (from, to int, err error) {
	s := luaScript{text: text}
	for _, at := range luaToken.FindAllStringIndex(text, -1) {
		if !strings.HasPrefix(text[at[0]:], "--") {
			s.tokens = append(s.tokens, at)
		}
	}
	at := luaNode{0, len(s.tokens)}
	steps := strings.Fields(path)
	for i := 0; i+1 < len(steps); i += 2 {
		kind := steps[i]
		if kind == "function" {
			kind, steps[i+1] = kind+" "+steps[i+1], "1"
		}
		nodes := s.nodes(at, kind)
		n, err := strconv.Atoi(steps[i+1])
		if err != nil || n < 1 || n > len(nodes) {
			var list strings.Builder
			for i, n := range nodes {
				fmt.Fprintf(&list, "\n\t%s %d: %s", kind, i+1, text[s.tokens[n.from][0]:s.tokens[n.to-1][1]])
			}
			return 0, 0, fmt.Errorf("%q: there is no %s %s, but%s", path, kind, steps[i+1], cmp.Or(list.String(), " none"))
		}
		at = nodes[n-1]
	}
	return s.tokens[at.from][0], s.tokens[at.to-1][1], nil
}

// token returns a token, "" after the last one.
func (s luaScript) token(i int) string {
	if i < 0 || i >= len(s.tokens) {
		return ""
	}
	return s.text[s.tokens[i][0]:s.tokens[i][1]]
}

// nodes returns the nodes of a kind within another one.
func (s luaScript) nodes(within luaNode, kind string) (nodes []luaNode) {
	if kind == "arg" {
		return s.arguments(within)
	}
	for i := within.from; i < within.to; i++ {
		at, next := s.token(i), s.token(i+1)
		switch {
		case kind == "function "+next && at == "function":
			nodes = append(nodes, luaNode{i, s.end(i)})
		case kind == "if" && (at == "if" || at == "elseif"):
			nodes = append(nodes, luaNode{i + 1, s.next(i, "then")})
		case kind == "for" && at == "for":
			nodes = append(nodes, luaNode{i + 1, s.next(i, "do")})
		case kind == "return" && at == "return":
			nodes = append(nodes, luaNode{i, s.next(i, "end", "else", "elseif", "")})
		case kind == "table" && at == "{":
			nodes = append(nodes, luaNode{i, s.closing(i) + 1})
		case next == "(" && s.token(i-1) != "function" && (at == kind || isCommand(at, s.token(i+2), kind)):
			nodes = append(nodes, luaNode{i, s.closing(i+1) + 1})
		case at == kind && !luaName.MatchString(kind):
			nodes = append(nodes, luaNode{i, i + 1})
		}
	}
	return nodes
}

var luaName = regexp.MustCompile(`^\w`)

// isCommand reports whether a call executes this Redis command.
func isCommand(function, argument, command string) bool {
	return (function == "redis.call" || function == "redis.pcall") && argument == "'"+command+"'"
}

// arguments returns the arguments of a call.
func (s luaScript) arguments(call luaNode) (nodes []luaNode) {
	first := s.next(call.from, "(") + 1
	for i := first; i < call.to; i++ {
		switch s.token(i) {
		case "(", "{", "[":
			i = s.closing(i)
		case ",", ")":
			nodes = append(nodes, luaNode{first, i})
			first = i + 1
		}
	}
	return nodes
}

// next returns the index of the next token that is one of these.
func (s luaScript) next(i int, these ...string) int {
	for !slices.Contains(these, s.token(i)) && i < len(s.tokens) {
		i++
	}
	return i
}

// closing returns the bracket that closes one.
func (s luaScript) closing(i int) int {
	for depth := 0; i < len(s.tokens); i++ {
		switch s.token(i) {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// end returns the index after the end of a function.
func (s luaScript) end(i int) int {
	for depth := 0; i < len(s.tokens); i++ {
		switch s.token(i) {
		case "function", "if", "do", "repeat":
			depth++
		case "end", "until":
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}
