package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The walks in package documentation name functions that exist, in the files where they are. A walk has
// at most a dozen functions, scripts included, in at most half a dozen Go files, and visits each file once.
func TestWalks(t *testing.T) {
	t.Parallel()
	step := regexp.MustCompile(`^\t(\S+\.(?:go|lua))?\s+(?:((?:\w+\.)?\w+)  )?`)
	for name, walks := range map[string]int{"cmd/run/run.go": 1, "engine/engine.go": 4} {
		found, functions, files := 0, 0, []string(nil)
		declared := map[string]bool{}
		for line := range strings.Lines(parse(t, name).Doc.Text()) {
			parts := step.FindStringSubmatch(line)
			if parts == nil || parts[1] == "" && len(files) == 0 { // between two walks
				functions, files = 0, nil
				continue
			}
			file, function := parts[1], parts[2]
			if file != "" {
				if len(files) == 0 {
					found++
				}
				if slices.Contains(files, file) {
					t.Errorf("%s: the walk returns to %s", name, file)
				}
				files = append(files, file)
				declared = functionsOf(t, file)
			}
			if function != "" && !declared[function] {
				t.Errorf("%s: %s has no function %s", name, files[len(files)-1], function)
			}
			functions++
			goFiles := len(slices.DeleteFunc(slices.Clone(files), func(f string) bool { return strings.HasSuffix(f, ".lua") }))
			if functions > 12 || goFiles > 6 {
				t.Errorf("%s: the walk has %d functions in %d files at %s", name, functions, goFiles, strings.TrimSpace(line))
			}
		}
		if found != walks {
			t.Errorf("%s has %d walks, want %d", name, found, walks)
		}
	}
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// functionsOf returns the functions of a file, with their receivers. A script has none.
func functionsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	if strings.HasSuffix(file, ".lua") {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		return nil
	}
	out := map[string]bool{}
	for _, d := range parse(t, file).Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			receiver := f.Recv.List[0].Type
			if star, ok := receiver.(*ast.StarExpr); ok {
				receiver = star.X
			}
			if id, ok := receiver.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		out[name] = true
	}
	return out
}
