package dsl

import "bytes"

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
