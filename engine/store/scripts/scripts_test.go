package scripts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	made = regexp.MustCompile(`\bscripts\.(New|Reading)\(([^)]+)\)`)
	name = regexp.MustCompile(`"(\w+)"`)
	call = regexp.MustCompile(`redis\.p?call\(\s*('\w+'|[^,)]+)`)
)

// Each file is part of a script, and those of a script that is declared as reading call only commands
// that write nothing. The writes of such a script would not wait for replicas.
func TestScripts(t *testing.T) {
	t.Parallel()
	// brief.lua calls the reading command that it is given.
	reading := strings.Fields("'EXISTS' 'TIME' 'XINFO' 'XLEN' 'XPENDING' 'XRANGE' 'XREVRANGE' 'ZCARD' 'ZCOUNT' 'ZRANGE' 'ZRANK' command unpack(ARGV")
	used := map[string]bool{}
	for _, source := range sources(t) {
		for _, m := range made.FindAllStringSubmatch(source, -1) {
			for _, file := range name.FindAllStringSubmatch(m[2], -1) {
				used[file[1]+".lua"] = true
				for _, c := range call.FindAllStringSubmatch(read(t, file[1]+".lua"), -1) {
					if m[1] == "Reading" && !slices.Contains(reading, c[1]) {
						t.Errorf("%s is declared as reading, but %s.lua calls %s", m[0], file[1], c[1])
					}
				}
			}
		}
	}
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		if !used[file] {
			t.Errorf("no script uses %s", file)
		}
	}
}

// sources returns the Go files of the store's packages.
func sources(t *testing.T) (out []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			out = append(out, read(t, file))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
