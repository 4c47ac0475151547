package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/sim/spec"
)

// testFiles returns the test files that arguments stand for: files and those in folders.
func testFiles(args []string) ([]string, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	var files []string
	for _, arg := range args {
		found, err := testsIn(arg)
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	if len(files) == 0 {
		return nil, cli.Misusef("no test files (*.test.yaml) in %s; 'flunq test --help' shows one", strings.Join(args, ", "))
	}
	return files, nil
}

// testsIn returns the test files in a folder, a test file itself, or the test file of a workflow.
func testsIn(arg string) ([]string, error) {
	files, isFolder, err := cli.FilesOf(arg, isTest)
	if err != nil || isFolder || isTest(arg) {
		return files, err
	}
	test := strings.TrimSuffix(arg, filepath.Ext(arg)) + spec.Suffixes()[0]
	if _, err := os.Stat(test); err != nil {
		return nil, cli.Misusef("%s is not a test file, and there is no %s beside it", arg, filepath.Base(test))
	}
	return []string{test}, nil
}

func isTest(file string) bool {
	return slices.ContainsFunc(spec.Suffixes(), func(suffix string) bool { return strings.HasSuffix(file, suffix) })
}

// readForTest reads a file that a test needs.
func readForTest(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, cli.WithoutVerb(file, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	return cli.ReadLimited(file, f)
}
