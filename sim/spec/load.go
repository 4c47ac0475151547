package spec

import (
	"errors"
	"path/filepath"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim/mock"
)

// Loader reads test files. Files that several of them name are read and checked once.
type Loader struct {
	// Warned, if set, is called once for each document with warnings.
	Warned func(source []byte, warnings []yaml.Warning)

	read      func(file string) ([]byte, error)
	documents map[string]*loaded
	dataFiles map[string]*dataFile
}

// loaded is a document, or its error.
type loaded struct {
	document *Document
	err      error
}

// dataFile is a data file with the positions of its values.
type dataFile struct {
	file   string
	source []byte
	reader *yaml.Reader
	root   *yaml3.Node
	err    error

	value *any
	mock  *mock.Set
	part  *part
}

// data returns the file as data, cached.
func (t *dataFile) data() (any, error) {
	if t.value == nil {
		t.value = new(any)
		if t.root != nil {
			*t.value = t.reader.Data(t.root)
		}
		t.err = t.reader.Err()
	}
	return *t.value, t.err
}

// mocks returns the file as mocks, cached.
func (t *dataFile) mocks() (*mock.Set, error) {
	if t.mock == nil {
		t.mock = mock.Read(t.reader, t.root)
		t.err = t.reader.Err()
	}
	return t.mock, t.err
}

// NewLoader returns a Loader that reads files with read.
func NewLoader(read func(file string) ([]byte, error)) *Loader {
	return &Loader{read: read, documents: map[string]*loaded{}, dataFiles: map[string]*dataFile{}}
}

// Load reads a test file. Its error joins one *yaml.Mistakes for each file with mistakes.
// files are those that the readable part of the test file names.
func (l *Loader) Load(file string) (s *Suite, files []string, err error) {
	source, err := l.read(file)
	if err != nil {
		return nil, []string{file}, err
	}
	r := &suiteReader{
		Reader: yaml.NewReader(file, source), loader: l, folder: filepath.Dir(file), files: []string{file},
		suite: &Suite{File: file, dataFiles: map[string]*dataFile{}},
	}
	if root := r.Root(); root != nil {
		r.suite.root = root
		r.suite.dataFiles[file] = &dataFile{file: file, source: source, root: root}
		r.file(root)
	} else if r.Err() == nil {
		r.Errorf(&yaml3.Node{Line: 1, Column: 1}, "the file is empty: want workflow and tests")
	}
	if err := errors.Join(append([]error{r.Err()}, r.errs...)...); err != nil {
		return nil, r.files, err
	}
	return r.suite, r.files, nil
}

// document reads a workflow document, cached.
func (l *Loader) document(file string) (*Document, error) {
	known := l.documents[file]
	if known == nil {
		known = &loaded{}
		l.documents[file] = known
		known.document, known.err = l.parse(file)
	}
	return known.document, known.err
}

func (l *Loader) parse(file string) (*Document, error) {
	source, err := l.read(file)
	if err != nil {
		return nil, err
	}
	def, warnings, err := dsl.Parse(file, source)
	if len(warnings) > 0 && l.Warned != nil {
		l.Warned(source, warnings)
	}
	if err != nil {
		return nil, err
	}
	return &Document{File: file, Definition: def}, nil
}

// dataFile reads a data file, cached.
func (l *Loader) dataFile(file string) *dataFile {
	if known := l.dataFiles[file]; known != nil {
		return known
	}
	known := &dataFile{file: file}
	l.dataFiles[file] = known
	if known.source, known.err = l.read(file); known.err != nil {
		return known
	}
	known.reader = yaml.NewReader(file, known.source)
	known.root = known.reader.Root()
	known.err = known.reader.Err()
	return known
}
