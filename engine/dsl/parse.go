// Package dsl parses workflow documents, in YAML or JSON, into validated Definitions. For
// an invalid document it reports every mistake with its position and a suggested
// correction.
package dsl

import (
	"bytes"

	"flunq.io/flunq/engine/yaml"
)

// Parse parses a workflow document in YAML or JSON. The error is a *yaml.Mistakes that
// lists every mistake; name is the file name that mistakes and warnings show.
func Parse(name string, src []byte) (*Definition, []yaml.Warning, error) {
	source := bytes.TrimPrefix(src, []byte("\ufeff"))
	p := newDocument(name, source, &Definition{Source: src, tasks: map[string]*Task{}})
	switch root := yaml.Read(p.Collector, source); {
	case root != nil:
		p.parse(root)
	case len(p.Mistakes) == 0:
		p.Mistake(yaml.Pos{Line: 1, Column: 1}, "begin with `document:` and `do:`", "the document is empty")
	}
	warnings, err := p.Result(source)
	if err != nil {
		return nil, warnings, err
	}
	return p.def, warnings, nil
}

// maxCompiled limits the total size of a document's expressions in bytes. Those of a shared timeout
// count once per use.
const maxCompiled = 2 << 20

// ParseData parses plain data, such as an input or a file of secrets, in JSON or YAML, by
// the rules for data inside documents. It returns nil for an empty src. The error is a
// *yaml.Mistakes.
func ParseData(name string, src []byte) (any, error) {
	source := bytes.TrimPrefix(src, []byte("\ufeff"))
	if len(bytes.TrimSpace(source)) == 0 {
		return nil, nil
	}
	mistakes := yaml.NewCollector(name, languageKeys()...)
	root := yaml.Read(mistakes, source)
	if _, err := mistakes.Result(source); err != nil {
		return nil, err
	}
	if root == nil {
		return nil, nil
	}
	return root.Data, nil
}
