package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// documentLimit is the maximum size of a document, in bytes. It bounds the memory that a mistaken
// argument can take.
const documentLimit = 64 << 20

// readDocument reads a file, or stdin for "-".
func readDocument(ctx context.Context, sh *shell, file string) ([]byte, error) {
	in := sh.In
	if file == "-" {
		if sh.stdinRead {
			return nil, misusef("stdin can be read once: only one of the document, --input and the other files can be -")
		}
		sh.stdinRead = true
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, fail(exitMisuse, withoutVerb(file, err))
		}
		defer func() { _ = f.Close() }() // nothing was written
		in = f
	}
	source, err := readAll(ctx, io.LimitReader(in, documentLimit+1))
	if err != nil {
		return nil, fail(exitMisuse, withoutVerb(file, err))
	}
	if len(source) > documentLimit {
		return nil, misusef("%s: larger than %d MiB", displayName(file), documentLimit>>20)
	}
	return source, nil
}

// readWorkflow reads a workflow document. For a file of another kind, the error names the command
// that takes it.
func readWorkflow(ctx context.Context, sh *shell, file string) ([]byte, error) {
	text, err := readDocument(ctx, sh, file)
	if err == nil {
		err = otherKind(displayName(file), text)
	}
	return text, err
}

// otherKind returns an error if a file is certainly a test file, a mocks file or a recording.
func otherKind(name string, text []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte(`{"record":"header"`)) {
		return misusef("%s is a recording: flunq replay %s", name, name)
	}
	var top map[string]yaml.Node
	if len(text) > documentLimit>>6 {
		return nil
	}
	_ = yaml.Unmarshal(text, &top) // a file that does not parse is none of these
	if len(top) == 0 {
		return nil
	}
	for _, key := range []string{"document", "do"} {
		if _, is := top[key]; is {
			return nil
		}
	}
	if tests, is := top["tests"]; is && tests.Kind == yaml.SequenceNode {
		return misusef("%s is a test file: flunq test %s", name, name)
	}
	for key := range top {
		if key != "http" && key != "events" {
			return nil
		}
	}
	return misusef("%s is a mocks file: flunq run WORKFLOW --mocks %s", name, name)
}

// readAll reads to the end, or until ctx ends, so that a command waiting for a forgotten stdin can
// be interrupted.
func readAll(ctx context.Context, in io.Reader) ([]byte, error) {
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		data, err := io.ReadAll(in)
		done <- read{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// displayName returns the name of a file in messages.
func displayName(file string) string {
	if file == "-" {
		return "stdin"
	}
	return file
}

// withoutVerb gives errors of files one form: the system's "open x: no such file" becomes "x: no
// such file".
func withoutVerb(file string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", displayName(file), err)
}

// documentFiles returns the files that an argument stands for: the file itself, or all workflow
// documents below a folder.
func documentFiles(arg string) ([]string, error) {
	if arg == "-" {
		return []string{arg}, nil
	}
	info, err := os.Stat(arg)
	if err != nil {
		return nil, fail(exitMisuse, withoutVerb(arg, err))
	}
	if !info.IsDir() {
		return []string{arg}, nil
	}
	var files []string
	err = filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != arg && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		is, err := isDocument(path, entry)
		if is {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fail(exitMisuse, fmt.Errorf("look for documents: %w", err))
	}
	if len(files) == 0 {
		return nil, misusef("%s: no workflow documents in this folder", arg)
	}
	return files, nil
}

func isDocument(path string, entry fs.DirEntry) (bool, error) {
	ext := filepath.Ext(path)
	switch ext {
	case ".yaml", ".yml", ".json":
	default:
		return false, nil
	}
	// Mocks and recordings may contain a document as data.
	switch filepath.Ext(strings.TrimSuffix(path, ext)) {
	case ".test", ".mocks":
		return false, nil
	}
	if info, err := os.Stat(path); entry.IsDir() || err != nil || !info.Mode().IsRegular() {
		return false, nil //nolint:nilerr // a dangling link is no document
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	return hasDocumentKey(source), nil
}

// hasDocumentKey looks for the key without parsing, so that invalid documents are found, and
// reported, too.
func hasDocumentKey(source []byte) bool {
	for line := range bytes.Lines(source) {
		line = bytes.TrimLeft(line, "{")
		if bytes.HasPrefix(line, []byte("document:")) {
			return true
		}
		line = bytes.TrimLeft(line, " \t{")
		if bytes.HasPrefix(line, []byte(`"document"`)) {
			return true
		}
	}
	return false
}
