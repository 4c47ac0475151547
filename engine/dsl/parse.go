package dsl

import "bytes"

// Parse reads a workflow document in YAML or JSON. An error is a *Mistakes
// with all that is wrong with it; name is what the file is called in them.
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
	lines    [][]byte // of source, split when first needed
	def      *Definition
	loose    bool
	shared   *shared
	compiled int // bytes of expressions so far

	jumps  []jump              // then: name, checked when all tasks are known
	places map[string][]string // task name → references of tasks with it
	bases  map[string]Pos      // bases of standard error types → first use
	base   string              // the first of them

	timed   bool           // the workflow has a timeout
	endless map[*Task]bool // lists of tasks, by their first one, that never come to their end
}
