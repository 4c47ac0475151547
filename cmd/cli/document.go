package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim/mock"
)

// DocumentLimit is the maximum size of a document, in bytes. It bounds the memory that a mistaken
// argument can take.
const DocumentLimit = 64 << 20

// ReadDocument reads a file, or stdin for "-".
func ReadDocument(ctx context.Context, sh *Shell, file string) ([]byte, error) {
	in := sh.In
	if file == "-" {
		if sh.stdinRead {
			return nil, Misusef("stdin can only be read once: only one of the document, --input and the other files can be -")
		}
		sh.stdinRead = true
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, Fail(ExitMisuse, WithoutVerb(file, err))
		}
		defer func() { _ = f.Close() }() // nothing was written
		in = f
	}
	source, err := readAll(ctx, file, in)
	return source, Fail(ExitMisuse, err)
}

// ReadLimited reads a file that is not larger than DocumentLimit.
func ReadLimited(file string, in io.Reader) ([]byte, error) {
	source, err := io.ReadAll(io.LimitReader(in, DocumentLimit+1))
	if err != nil {
		return nil, WithoutVerb(file, err)
	}
	if len(source) > DocumentLimit {
		return nil, fmt.Errorf("%s: larger than %d MiB", DisplayName(file), DocumentLimit>>20)
	}
	return source, nil
}

// ReadWorkflow reads a workflow document. If the file is a recording, a test file or a
// mocks file, the error suggests the right command.
func ReadWorkflow(ctx context.Context, sh *Shell, file string) ([]byte, error) {
	text, err := ReadDocument(ctx, sh, file)
	if err == nil {
		err = checkWorkflow(DisplayName(file), text)
	}
	return text, err
}

// checkWorkflow returns an error if a file is recognizably a test file, a mocks file or a
// recording.
func checkWorkflow(name string, text []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte(`{"record":"header"`)) {
		return Misusef("%s is a recording: flunq replay %s", name, name)
	}
	var top map[string]yaml3.Node
	if len(text) > DocumentLimit>>6 {
		return nil
	}
	_ = yaml3.Unmarshal(text, &top) // a file that does not parse is none of these
	if len(top) == 0 {
		return nil
	}
	for _, key := range []string{"document", "do"} {
		if _, is := top[key]; is {
			return nil
		}
	}
	if tests, is := top["tests"]; is && tests.Kind == yaml3.SequenceNode {
		return Misusef("%s is a test file: flunq test %s", name, name)
	}
	for key := range top {
		if key != "http" && key != "events" {
			return nil
		}
	}
	return Misusef("%s is a mocks file: flunq run WORKFLOW --mocks %s", name, name)
}

// readAll reads to the end or until ctx ends so that a command that waits for stdin can be
// interrupted.
func readAll(ctx context.Context, file string, in io.Reader) ([]byte, error) {
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		data, err := ReadLimited(file, in)
		done <- read{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, WithoutVerb(file, ctx.Err())
	}
}

// DisplayName returns the name that messages use for a file.
func DisplayName(file string) string {
	switch file {
	case "-":
		return "stdin"
	case "":
		return `""`
	}
	return file
}

// WithoutVerb removes the verb from an error about a file: "open x: no such file" becomes
// "x: no such file".
func WithoutVerb(file string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", DisplayName(file), err)
}

// DocumentFiles returns the files that an argument stands for: the file itself, or all workflow
// documents below a folder.
func DocumentFiles(arg string) ([]string, error) {
	files, isFolder, err := FilesOf(arg, isDocument)
	if isFolder && err == nil && len(files) == 0 {
		err = Misusef("%s: no workflow documents in this folder", arg)
	}
	return files, err
}

// FilesOf returns the files that an argument stands for: the file itself, or those below a folder
// that are wanted.
func FilesOf(arg string, wanted func(path string) bool) (files []string, isFolder bool, err error) {
	if arg == "-" {
		return []string{arg}, false, nil
	}
	info, err := os.Stat(arg)
	if err != nil {
		return nil, false, Fail(ExitMisuse, WithoutVerb(arg, err))
	}
	if !info.IsDir() {
		return []string{arg}, false, nil
	}
	if files, err = FilesIn(arg, wanted); err != nil {
		err = Fail(ExitMisuse, fmt.Errorf("search %s: %w", arg, err))
	}
	return files, true, err
}

// FilesIn returns the files below a folder that are wanted, except those in hidden folders and
// in node_modules.
func FilesIn(folder string, wanted func(path string) bool) (files []string, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			if wanted(path) {
				files = append(files, path)
			}
			return nil
		case path != folder && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return fs.SkipDir
		default:
			return nil
		}
	})
	return files, err
}

// EachWorkflow calls do with each workflow document that the arguments stand for. It reports those
// that cannot be read and continues with the others; the error then has only an exit code.
func EachWorkflow(ctx context.Context, sh *Shell, args []string, do func(name string, source []byte)) (unread error) {
	skip := func(err error) {
		sh.Report(err)
		unread = Reported(ExitMisuse)
	}
	for _, arg := range args {
		files, err := DocumentFiles(arg)
		if err != nil {
			skip(err)
		}
		for _, file := range files {
			source, err := ReadWorkflow(ctx, sh, file)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				skip(err)
			default:
				do(DisplayName(file), source)
			}
		}
	}
	return unread
}

// MayBeDocument reports whether a file is named like a document.
func MayBeDocument(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
}

func isDocument(path string) bool {
	if !MayBeDocument(path) {
		return false
	}
	// Mocks, inputs and recordings may contain a document as data.
	switch filepath.Ext(strings.TrimSuffix(path, filepath.Ext(path))) {
	case ".test", ".mocks", ".input":
		return false
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return false
	}
	source, err := os.ReadFile(path)
	if err != nil { // reported when the document is read; but a dangling link is not a document
		return !errors.Is(err, fs.ErrNotExist)
	}
	return hasDocumentKey(source)
}

// hasDocumentKey looks for the key without parsing so that invalid documents are found
// too.
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

// None is the value of --mocks and --input that leaves out what belongs to the document.
const None = "none"

// MocksBeside returns the mocks file of a document, such as hello.mocks.yaml for hello.yaml;
// "" if there is none.
func MocksBeside(document string) string { return beside(document, ".mocks.yaml") }

// InputBeside returns the input file of a document, such as hello.input.json for hello.yaml;
// "" if there is none.
func InputBeside(document string) string { return beside(document, ".input.json") }

func beside(document, suffix string) string {
	file := strings.TrimSuffix(document, filepath.Ext(document)) + suffix
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || !MayBeDocument(document) {
		return ""
	}
	return file
}

// Document is the text of a workflow document and its origin.
type Document struct {
	Name string
	Text []byte
	Def  *dsl.Definition
}

// TaskOf returns the position of the expression or, if it is unknown, of the task that
// failed.
func (d Document) TaskOf(p *event.Problem) (at yaml.Pos, ok bool) {
	if d.Def == nil {
		return at, false
	}
	return d.Def.Locate(p.Instance, p.Detail)
}

// Explain prints the error that ended a workflow and the line of the document that caused
// it.
func (d Document) Explain(w io.Writer, on bool, p *event.Problem) {
	fmt.Fprintf(w, "%s %s\n", Paint(on, Red, "faulted:"), Printable(Headline(p)))
	if p.Detail != "" {
		fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(Printable(strings.TrimSpace(p.Detail)), "\n", "\n  "))
	}
	fmt.Fprintf(w, "  type      %s\n", Printable(p.Type))
	if p.Instance != "" {
		fmt.Fprintf(w, "  instance  %s\n", Printable(p.Instance))
	}
	if at, ok := d.TaskOf(p); ok {
		d.Frame(w, on, at)
	}
	if advice := expr.Advice(p.Detail); advice != "" && event.ShortType(p.Type) == event.ShortType(event.Expression) {
		fmt.Fprintf(w, "         help: %s\n", Printable(advice))
	}
}

// StoredDocument returns a registered document. Def is nil if this version of flunq cannot
// parse it.
func StoredDocument(name, text string) Document {
	d := Document{Name: name, Text: []byte(text)}
	if def, _, err := dsl.Parse(name, d.Text); err == nil {
		d.Def = def
		d.Name = name + ":" + def.Document.Version
	}
	return d
}

// CompletionWords returns the tasks for the shell: each by its name, or by its reference if several have the
// name.
func (d Document) CompletionWords() (words []string) {
	if d.Def == nil {
		return nil
	}
	named := map[string]int{}
	for _, t := range d.Def.Tasks() {
		named[t.Name]++
	}
	for ref, t := range d.Def.Tasks() {
		word := t.Name
		if named[word] > 1 {
			word = ref
		}
		words = append(words, OneLine(word)+"\t"+string(t.Kind))
	}
	return words
}

// LoadDocument reads and parses the document in a file, and prints its mistakes or warnings.
func LoadDocument(ctx context.Context, sh *Shell, file string) (Document, error) {
	text, err := ReadWorkflow(ctx, sh, file)
	if err != nil {
		return Document{}, err
	}
	return ParseDocument(sh, DisplayName(file), text)
}

// ParseDocument parses a document and prints its mistakes or warnings.
func ParseDocument(sh *Shell, name string, text []byte) (Document, error) {
	def, warnings, err := dsl.Parse(name, text)
	if mistakes, ok := errors.AsType[*yaml.Mistakes](err); ok {
		mistakes.Render(sh.Err, sh.ErrColor())
		return Document{}, Reported(ExitInvalid)
	}
	if err != nil {
		return Document{}, err
	}
	if !sh.Quiet {
		yaml.RenderWarnings(sh.Err, text, warnings, sh.ErrColor())
	}
	return Document{Name: name, Text: text, Def: def}, nil
}

// ReadDefinition reads and parses a document, and prints its mistakes but no warnings.
func ReadDefinition(ctx context.Context, sh *Shell, file string) (*dsl.Definition, error) {
	text, err := ReadWorkflow(ctx, sh, file)
	if err != nil {
		return nil, err
	}
	def, _, err := dsl.Parse(DisplayName(file), text)
	if err != nil {
		ExplainMistakes(sh, err)
		return nil, Reported(ExitInvalid)
	}
	return def, nil
}

// ReadData returns the data given to a flag as JSON, nil if the flag is empty. The flag
// contains JSON or YAML, or @FILE, or - for stdin.
func ReadData(ctx context.Context, sh *Shell, flag, given string) (json.RawMessage, error) {
	text, name := []byte(given), flag
	switch {
	case given == "":
		return nil, nil
	case given == "-", strings.HasPrefix(given, "@"):
		name = strings.TrimPrefix(given, "@")
		var err error
		if text, err = ReadDocument(ctx, sh, name); err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, Misusef("%s: %s is empty", flag, DisplayName(name))
		}
	default:
		if err := fileWithoutAt(flag, given); err != nil {
			return nil, err
		}
	}
	if len(text) > yaml.MaxSize {
		return nil, Misusef("%s has %d bytes, the limit is %d", DisplayName(name), len(text), yaml.MaxSize)
	}
	v, err := dsl.ParseData(DisplayName(name), text)
	if err != nil {
		return nil, Misusef("%s cannot be read as JSON or YAML: %v", DisplayName(name), err)
	}
	return canonical.Encode(v), nil
}

// fileWithoutAt refuses data that is the name of a file: the user has probably forgotten
// the @.
func fileWithoutAt(flag, given string) error {
	info, err := os.Stat(given)
	exists := err == nil && info.Mode().IsRegular()
	switch {
	case exists:
		return Misusef("%s %s is the name of a file: did you mean @%s?", flag, given, given)
	case strings.ContainsAny(given, " \t\n{}[]\"':"):
		return nil
	case MayBeDocument(given):
		return Misusef("%s %s looks like the name of a file (@%s), but there is no such file", flag, given, given)
	default:
		return nil
	}
}

// ReadSecrets reads a file with a map of secrets by name; "" has none.
func ReadSecrets(ctx context.Context, sh *Shell, file string) (map[string]any, error) {
	if file == "" {
		return nil, nil
	}
	text, err := ReadDocument(ctx, sh, file)
	if err != nil {
		return nil, err
	}
	v, err := dsl.ParseData(file, text)
	if err != nil {
		return nil, Misusef("%s: %v", file, err)
	}
	secrets, ok := v.(map[string]any)
	if !ok {
		return nil, Misusef("%s: want a map of secrets by name", file)
	}
	return secrets, nil
}

// MissingSecrets returns a mistake for each secret that the document uses but that is not
// given; nil if there are none.
func MissingSecrets(def *dsl.Definition, name string, given map[string]any, file string) *yaml.Mistakes {
	var list []yaml.Mistake
	for _, use := range def.Secrets {
		if _, ok := given[use.Name]; ok {
			continue
		}
		m := yaml.Mistake{Pos: use.Pos, File: cmp.Or(name, def.ID()), Message: fmt.Sprintf("unknown secret %q", use.Name)}
		known := slices.Sorted(maps.Keys(given))
		switch guess := spelling.Word(use.Name, known); {
		case file == "":
			m.Suggestion = fmt.Sprintf("give it with --secrets FILE, a map by name such as {%s: …}", use.Name)
		case guess != "":
			m.Suggestion = fmt.Sprintf("did you mean %q, which is in %s?", guess, file)
		case len(known) == 0:
			m.Suggestion = "add it to " + file + ", which is empty"
		default:
			m.Suggestion = fmt.Sprintf("add it to %s, which has %s", file, strings.Join(known, ", "))
		}
		list = append(list, m)
	}
	if list == nil {
		return nil
	}
	return yaml.NewMistakes(def.Source, list)
}

// Frame prints a line of the document with a mark below the column.
func (d Document) Frame(w io.Writer, on bool, at yaml.Pos) {
	if line, ok := d.Line(at.Line); ok {
		PrintFrame(w, on, fmt.Sprintf("%s:%d:%d", d.Name, at.Line, at.Column), at, line)
	}
}

// PrintFrame prints a line of a document with a mark below the column. place names both.
func PrintFrame(w io.Writer, on bool, place string, at yaml.Pos, line string) {
	fmt.Fprintf(w, "  at %s\n", Printable(place))
	fmt.Fprintf(w, "%6d | %s\n", at.Line, Printable(line))
	pad := strings.Repeat(" ", max(at.Column-1, 0))
	fmt.Fprintf(w, "       | %s%s\n", pad, Paint(on, Red, "^"))
}

// Line returns a line of the document; the first one is 1.
func (d Document) Line(n int) (string, bool) {
	lines := strings.Split(string(d.Text), "\n")
	if n < 1 || n > len(lines) {
		return "", false
	}
	return strings.TrimRight(lines[n-1], "\r"), true
}

// Headline returns a problem as one line of text.
func Headline(p *event.Problem) string {
	title := cmp.Or(p.Title, event.ShortType(p.Type))
	return fmt.Sprintf("%s (status %d)", title, p.Status)
}

// ReadMocks reads a file of mocks.
func ReadMocks(ctx context.Context, sh *Shell, file string) (*mock.Set, error) {
	text, err := ReadDocument(ctx, sh, file)
	if err != nil {
		return nil, err
	}
	mocks, err := mock.Parse(file, text)
	return mocks, Fail(ExitMisuse, err)
}

// Note is a mistake or a warning in the JSON output.
type Note struct {
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
	Rule       string `json:"rule,omitempty"` // of a warning
}

// MistakeNotes returns the mistakes in an error of dsl.Parse for the JSON output.
func MistakeNotes(err error) (notes []Note) {
	if found, ok := errors.AsType[*yaml.Mistakes](err); ok {
		for _, m := range found.List {
			notes = append(notes, Note{m.Line, m.Column, m.Message, m.Suggestion, ""})
		}
	} else if err != nil {
		notes = []Note{{Line: 1, Column: 1, Message: err.Error()}}
	}
	return notes
}

// WarningNotes returns warnings for the JSON output.
func WarningNotes(warnings []yaml.Warning) (notes []Note) {
	for _, w := range warnings {
		notes = append(notes, Note{w.Line, w.Column, w.Message, w.Suggestion, w.Rule})
	}
	return notes
}

// AllMistakes returns the mistakes in an error about several files.
func AllMistakes(err error) (all []yaml.Mistake) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			all = append(all, AllMistakes(one)...)
		}
	} else if found, ok := errors.AsType[*yaml.Mistakes](err); ok {
		all = found.List
	}
	return all
}

// ExplainMistakes prints the mistakes in one or several documents and their positions.
func ExplainMistakes(sh *Shell, err error) {
	found, ok := errors.AsType[*yaml.Mistakes](err)
	joined, several := err.(interface{ Unwrap() []error })
	switch {
	case !ok:
		sh.Report(err)
	case several:
		for _, one := range joined.Unwrap() {
			ExplainMistakes(sh, one)
		}
	default:
		found.Render(sh.Err, sh.ErrColor())
	}
}
