package graph_test

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"flunq.io/flunq/cmd/graph"
	"flunq.io/flunq/engine/dsl"
)

// In every graph, edges connect existing nodes, nodes have unique ids and existing groups,
// and each node except the start can be reached.
func TestGraphIsConnected(t *testing.T) {
	t.Parallel()
	for name, def := range examples(t) {
		g := graph.Of(def)
		groups := map[string]bool{"": true}
		for _, group := range g.Groups {
			groups[group.ID] = true
		}
		nodes, reached := map[string]bool{}, map[string]bool{"start": true, "end": true}
		for _, n := range g.Nodes {
			if nodes[n.ID] {
				t.Errorf("%s: two nodes are %s", name, n.ID)
			}
			nodes[n.ID] = true
			if !groups[n.Group] {
				t.Errorf("%s: %s is in no group %q", name, n.ID, n.Group)
			}
		}
		for _, e := range g.Edges {
			reached[e.To] = true
			if !nodes[e.From] || !nodes[e.To] {
				t.Errorf("%s: edge %s to %s lacks an end", name, e.From, e.To)
			}
		}
		for id := range nodes {
			if !reached[id] {
				t.Errorf("%s: nothing leads to %s", name, id)
			}
		}
	}
}

// Every tree has a line for each task and fits into the terminal.
func TestTextFits(t *testing.T) {
	t.Parallel()
	for name, def := range examples(t) {
		var out strings.Builder
		if err := graph.Text(&out, def, graph.TextOptions{Width: 80}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if w := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); w > 80 {
				t.Errorf("%s: %d columns: %s", name, w, line)
			}
		}
		for _, task := range def.Tasks() {
			inside := strings.Contains(task.Ref, "/with/subscription/") // of a call that cannot run yet
			if strings.HasPrefix(task.Ref, "/do/") && !inside && !strings.Contains(out.String(), task.Name) {
				t.Errorf("%s: %s is missing in\n%s", name, task.Ref, out.String())
			}
		}
	}
}

// With ASCII, the tree contains only ASCII characters, even for other names.
func TestASCII(t *testing.T) {
	t.Parallel()
	def := parse(t, "wide.yaml", `document: {dsl: '1.0.3', namespace: shop, name: wide, version: '1.0.0'}
do:
  - 日本語: {set: {é: 1}, then: end}
`)
	var out strings.Builder
	if err := graph.Text(&out, def, graph.TextOptions{ASCII: true}); err != nil {
		t.Fatal(err)
	}
	want := "shop/wide 1.0.0\n|- \\u65e5\\u672c\\u8a9e  set \\u00e9 -> end\n`* end\n"
	if out.String() != want {
		t.Errorf("got\n%s, want\n%s", out.String(), want)
	}
}

// examples returns the examples of the specification by file.
func examples(t *testing.T) map[string]*dsl.Definition {
	t.Helper()
	folder := filepath.Join(cmp.Or(os.Getenv("FLUNQ_SPEC"), "../../../shared/spec"), "examples")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("NOT TESTED: the specification's examples are not in %s (set FLUNQ_SPEC)", folder)
	}
	found := map[string]*dsl.Definition{}
	err := filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".yaml" {
			return err
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// The tests of dsl cover invalid documents.
		if def, _, err := dsl.Parse(file, source); err == nil {
			found[file] = def
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("read %d examples in %s: %v", len(found), folder, err)
	}
	return found
}

func parse(t *testing.T, name, source string) *dsl.Definition {
	t.Helper()
	def, _, err := dsl.Parse(name, []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return def
}
