// Package dsl parses workflow documents, in YAML or JSON, into validated Definitions. For
// an invalid document it reports every mistake with its position and a suggested
// correction.
package dsl

import (
	"bytes"
)

// Parse parses a workflow document in YAML or JSON. An error is a *Mistakes that lists
// every mistake. The name is the file name that mistakes show.
func Parse(name string, src []byte) (*Definition, []Warning, error) {
	source := bytes.TrimPrefix(src, []byte("\ufeff"))
	p := &parser{
		notes:  &notes{file: name, said: map[Mistake]bool{}},
		source: source,
		def:    &Definition{Source: src, tasks: map[string]*Task{}},
		shared: newShared(),

		endless: map[*Task]bool{},
	}
	if root := read(p.notes, source); root != nil {
		p.document(root)
	}
	warnings, err := p.result(source)
	if err != nil {
		return nil, warnings, err
	}
	return p.def, warnings, nil
}

// parser walks the tree of a document.
type parser struct {
	*notes
	source   []byte
	lines    [][]byte // lines of source, split on first use
	def      *Definition
	loose    bool
	shared   *shared
	compiled int // bytes of expressions compiled so far

	jumps  []jump              // targets of then, checked once all tasks are known
	places map[string][]string // task name → references of the tasks with that name
	bases  map[string]Pos      // base URIs of standard error types → first use
	base   string              // the base URI used first

	timed   bool           // the workflow has a timeout
	endless map[*Task]bool // lists whose end is never reached, by their first task
}

// Limits of a document. Each is far above what people write, and low enough that a hostile
// document is rejected in well under a second.
const (
	// MaxSize is the size of a document's text in bytes.
	MaxSize = 1 << 20
	// MaxDepth is the nesting depth of lists and maps.
	MaxDepth = 100
	// MaxNodes is the number of values in a document, including those that aliases repeat.
	MaxNodes = 50_000
	// MaxKeys is the number of keys of one map.
	MaxKeys = 10_000
	// MaxAliases is the number of YAML aliases (*name) in a document.
	MaxAliases = 1_000
	// MaxDigits is the length of a whole number.
	MaxDigits = 400
	// MaxCompiled is the size of all expressions in bytes. Those of shared policies count
	// once per use.
	MaxCompiled = 2 << 20
	// MaxMistakes is the number of mistakes, and of warnings, reported for one document.
	MaxMistakes = 200
)

// ParseData parses plain data (an input, a file of secrets) in JSON or YAML, by the rules
// for data inside documents. It returns nil for an empty src. An error is a *Mistakes.
func ParseData(name string, src []byte) (any, error) {
	source := bytes.TrimPrefix(src, []byte("\ufeff"))
	if len(bytes.TrimSpace(source)) == 0 {
		return nil, nil
	}
	p := &parser{notes: &notes{file: name, said: map[Mistake]bool{}}}
	root := read(p.notes, source)
	if _, err := p.result(source); err != nil {
		return nil, err
	}
	if root == nil {
		return nil, nil
	}
	return root.data, nil
}
