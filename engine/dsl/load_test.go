package dsl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
)

// spec returns the directory of the specification's own documents.
func spec(tb testing.TB) string {
	tb.Helper()
	folder := os.Getenv("FLUNQ_SPEC")
	if folder == "" {
		folder = "../../../shared/spec"
	}
	if _, err := os.Stat(folder); err != nil {
		tb.Skipf("NOT TESTED: the specification is not at %s (set FLUNQ_SPEC)", folder)
	}
	return folder
}

// examples returns the specification's valid or invalid documents.
func examples(tb testing.TB, invalid bool) []string {
	tb.Helper()
	patterns := []string{"examples/*/*.yaml", "examples/*/dsl-reference/*.yaml"}
	if invalid {
		patterns = []string{"examples/*/invalid/*.yaml"}
	}
	var files []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(spec(tb), pattern))
		if err != nil {
			tb.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		tb.Fatal("no examples found")
	}
	return files
}

func load(tb testing.TB, file string) []byte {
	tb.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return src
}

// Every official example is valid.
func TestOfficialExamples(t *testing.T) {
	t.Parallel()
	for _, file := range examples(t, false) {
		def, warnings, err := dsl.Parse(file, load(t, file))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, w := range warnings {
			t.Log(w)
		}
		for ref, task := range def.Tasks() {
			if task.Ref != ref || def.Task(ref) != task || task.Name == "" {
				t.Errorf("%s: task %s is %+v", file, ref, task)
			}
		}
	}
}

// The official examples of invalid documents are rejected.
func TestOfficialInvalidExamples(t *testing.T) {
	t.Parallel()
	for _, file := range examples(t, true) {
		if _, _, err := dsl.Parse(file, load(t, file)); err == nil {
			t.Errorf("%s: no mistake found", file)
		} else {
			t.Log(err)
		}
	}
}

// The workflows that come with flunq have neither mistakes nor warnings.
func TestOwnWorkflows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../workflows/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if kind := filepath.Ext(strings.TrimSuffix(file, ".yaml")); kind == ".mocks" || kind == ".test" {
			continue
		}
		_, warnings, err := dsl.Parse(file, load(t, file))
		if err != nil {
			t.Error(err)
		}
		for _, w := range warnings {
			t.Error(w)
		}
	}
}

// The documents of the official conformance scenarios are valid.
func TestConformanceDocuments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(spec(t), "ctk/*/*.feature"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		for _, part := range strings.Split(string(load(t, file)), "a workflow with definition:")[1:] {
			_, document, _ := strings.Cut(part, `"""yaml`)
			document, _, _ = strings.Cut(document, `"""`)
			if _, _, err := dsl.Parse(file, []byte(document)); err != nil {
				t.Errorf("%v\n%s", err, document)
			}
			found++
		}
	}
	if found < 42 {
		t.Errorf("only %d documents found", found)
	}
}
