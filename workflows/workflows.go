// Package workflows holds ready-to-run workflows to learn from and copy. Each is NAME.yaml, with
// its input, mocks and expected output beside it.
package workflows

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"flunq.io/flunq/engine/spelling"
)

//go:embed *.yaml *.json
var files embed.FS

// Example is a workflow with everything needed to run it.
type Example struct {
	Name     string
	Summary  string            // one sentence
	Document []byte            // the workflow
	Mocks    []byte            // a mocks file, nil where none is needed
	Input    []byte            // JSON, nil where none is needed
	Output   []byte            // JSON: the output of a run with the mocks and the input
	Test     []byte            // a test file
	With     map[string][]byte // the documents of its child workflows, by file name
}

// Names returns the names of the workflows, sorted.
func Names() []string {
	var names []string
	for _, file := range fileNames() {
		// Companion files have a second part in their names: NAME.mocks.yaml.
		if name, ok := strings.CutSuffix(file, ".yaml"); ok && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Load reads the workflow with this name.
func Load(name string) (Example, error) {
	names := Names()
	if !slices.Contains(names, name) {
		return Example{}, fmt.Errorf("no workflow %q, %s", name, hint(name, names))
	}
	e := Example{Name: name, With: map[string][]byte{}}
	for _, part := range []struct {
		suffix string
		to     *[]byte
	}{
		{".yaml", &e.Document},
		{".mocks.yaml", &e.Mocks},
		{".input.json", &e.Input},
		{".output.json", &e.Output},
		{".test.yaml", &e.Test},
	} {
		src, err := files.ReadFile(name + part.suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Example{}, fmt.Errorf("read workflow %s: %w", name, err)
		}
		*part.to = src
	}
	for _, file := range fileNames() {
		if !isChild(file, name) {
			continue
		}
		src, err := files.ReadFile(file)
		if err != nil {
			return Example{}, fmt.Errorf("read workflow %s: %w", name, err)
		}
		e.With[file] = src
	}
	e.Summary = summary(string(e.Document))
	return e, nil
}

// isChild reports whether file is a child workflow of the workflow name.
func isChild(file, name string) bool {
	part, ok := strings.CutPrefix(file, name+".")
	part, isYAML := strings.CutSuffix(part, ".yaml")
	return ok && isYAML && part != "" && part != "mocks" && part != "test"
}

// summary returns the first sentence of the comment at the head of a document.
func summary(document string) string {
	var text []string
	for line := range strings.Lines(document) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		text = append(text, strings.TrimSpace(comment))
	}
	sentence, _, more := strings.Cut(strings.Join(text, " "), ". ")
	if more {
		sentence += "."
	}
	return sentence
}

func fileNames() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("workflows: the embedded files cannot be listed: %v", err))
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// hint suggests a similar name, or else lists all names.
func hint(name string, names []string) string {
	if found := spelling.Word(name, names); found != "" {
		return fmt.Sprintf("did you mean %q?", found)
	}
	return "want one of " + strings.Join(names, ", ")
}
