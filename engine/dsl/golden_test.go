package dsl_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
)

var update = flag.Bool("update", false, "rewrite the wanted part of the golden files")

// Each file in testdata is a document, and the messages about it.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			document := archive.Files[0]
			got := said(document.Name, document.Data)
			if *update {
				archive.Files = []txtar.File{document, {Name: "want", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("-want +got, -update rewrites it\n%s", diff)
			}
		})
	}
}

// said returns all messages that a user sees.
func said(name string, src []byte) string {
	var b strings.Builder
	_, warnings, err := dsl.Parse(name, src)
	if mistakes, ok := errors.AsType[*yaml.Mistakes](err); ok {
		mistakes.Render(&b, false)
	}
	yaml.RenderWarnings(&b, src, warnings, false)
	return b.String()
}
