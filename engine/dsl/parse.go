package dsl

import "bytes"

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
