package cmd_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A walk in the documentation of a package names functions that exist, in the files that they are in. It
// has at most a dozen functions, scripts included, in at most half a dozen Go files, and returns to none.
func TestWalks(t *testing.T) {
	t.Parallel()
	step := regexp.MustCompile(`^//\t(\S+\.(?:go|lua))?\s+(?:(?:(\w+)\.)?(\w+)  )?`)
	for name, want := range map[string]int{"cmd/run/run.go": 1, "engine/engine.go": 4} {
		doc, _, _ := strings.Cut(read(t, name), "\npackage ")
		walks := slices.DeleteFunc(regexp.MustCompile(`(?m)(^//\t.*\n)+`).FindAllString(doc, -1), func(indented string) bool {
			return !strings.Contains(indented, ".go ") // the diagram
		})
		if len(walks) != want {
			t.Errorf("%s has %d walks, want %d", name, len(walks), want)
		}
		for _, walk := range walks {
			var files []string
			text, goFiles, steps := "", 0, strings.Split(strings.TrimSpace(walk), "\n")
			for _, line := range steps {
				found := step.FindStringSubmatch(line)
				if file := found[1]; file != "" {
					if slices.Contains(files, file) {
						t.Errorf("%s: a walk returns to %s", name, file)
					}
					if strings.HasSuffix(file, ".go") {
						goFiles++
					}
					files, text = append(files, file), read(t, file)
				}
				declared := `(?m)^func ` + found[3] + `\(`
				if found[2] != "" {
					declared = `(?m)^func \(\w+ \*?` + found[2] + `\) ` + found[3] + `\(`
				}
				if found[3] != "" && !regexp.MustCompile(declared).MatchString(text) {
					t.Errorf("%s: %s is not in %s", name, found[3], files[len(files)-1])
				}
			}
			if len(steps) > 12 || goFiles > 6 {
				t.Errorf("%s: the walk from %s has %d functions in %d Go files", name, files[0], len(steps), goFiles)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(path.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
