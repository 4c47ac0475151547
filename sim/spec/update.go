package spec

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/yaml"
)

// splice is a replacement of a part of a file.
type splice struct {
	from, to int
	text     string
}

// Update returns the new content of the files, by name, in which expectations become the actual
// results of the runs. Everything else in them stays the same, byte for byte. If a result cannot
// be written, or differs between the seeds of a case, which again runs with all of them, Update returns
// an error and no files.
func (s *Suite) Update(verdicts []*Verdict, read func(file string) ([]byte, error), again func(*Case) (*Verdict, error)) (map[string][]byte, error) {
	edits := map[string][]edit{}
	for _, v := range verdicts {
		if v.Case.Expect.node == nil {
			edits[s.File] = append(edits[s.File], edit{op: insert, file: s.File, node: v.Case.node, key: "expect", value: v.actualExpectations()})
			continue
		}
		for _, d := range v.Differences {
			for _, e := range d.edits {
				edits[e.file] = append(edits[e.file], e)
			}
		}
	}
	out := map[string][]byte{}
	for file, list := range edits {
		changed, err := s.apply(file, list)
		if err != nil {
			return nil, err
		}
		out[file] = changed
	}
	return out, s.confirm(verdicts, out, read, again)
}

// apply applies the edits of one file.
func (s *Suite) apply(file string, edits []edit) ([]byte, error) {
	source := s.dataFiles[file].source
	t := newSourceText(source, s.dataFiles[file].root)
	var splices []splice
	for _, e := range edits {
		one, err := t.splice(e, filepath.Ext(file) == ".json")
		if err != nil {
			return nil, fmt.Errorf("%s:%d: the result cannot be written here: %w", file, e.node.Line, err)
		}
		splices = append(splices, one)
	}
	// Begin at the end so that earlier offsets stay valid; of two that overlap, the larger
	// comes first.
	slices.SortStableFunc(splices, func(a, b splice) int { return cmp.Or(b.from-a.from, a.to-b.to) })
	out := string(source)
	for i, one := range splices {
		if !within(one, splices[i+1:]) {
			out = out[:one.from] + one.text + out[one.to:]
		}
	}
	return []byte(out), nil
}

// within reports whether a splice is inside another one.
func within(one splice, others []splice) bool {
	return slices.ContainsFunc(others, func(o splice) bool {
		return o.from <= one.from && one.to <= o.to && o.to > o.from
	})
}

func (t *sourceText) splice(e edit, isJSON bool) (splice, error) {
	switch e.op {
	case insert:
		return t.insertion(e)
	case remove:
		return t.removal(e)
	case swap:
		_, to, err := t.extent(e.node)
		return splice{t.offset(e.at), to, t.member(e, e.at.Column-1, t.above[e.node].inFlow)}, err
	default:
		return t.replacement(e, isJSON)
	}
}

// member returns a key with its value.
func (t *sourceText) member(e edit, indent int, inFlow bool) string {
	line := e.key + ": " + flow(e.value)
	if inFlow || !isCollection(e.value) || len(line) <= flowWidth && e.key != "expect" {
		return line
	}
	return e.key + ":\n" + strings.Repeat(" ", indent+2) + block(e.value, indent+2)
}

// insertion adds a member to a map: at the front, except for expect, which comes last.
func (t *sourceText) insertion(e edit) (splice, error) {
	n := e.node
	from, to, err := t.extent(n)
	isFlow := n.Style&yaml3.FlowStyle != 0
	switch {
	case err != nil:
		return splice{}, err
	case n.Kind != yaml3.MappingNode || len(n.Content) == 0:
		return splice{from, to, flow(map[string]any{e.key: e.value})}, nil
	case e.key == "expect" && isFlow:
		_, last, err := t.extent(n.Content[len(n.Content)-1])
		return splice{last, last, ", " + t.member(e, 0, true)}, err
	case e.key == "expect":
		indent, end := n.Content[0].Column-1, t.lineEnd(to)
		return splice{end, end, "\n" + strings.Repeat(" ", indent) + t.member(e, indent, false)}, nil
	case isFlow:
		at := t.offset(n.Content[0])
		return splice{at, at, t.member(e, 0, true) + ", "}, nil
	default:
		indent := n.Content[0].Column - 1
		return splice{from, from, t.member(e, indent, false) + "\n" + strings.Repeat(" ", indent)}, nil
	}
}

// removal removes a member: in flow style with its comma, otherwise with its lines.
func (t *sourceText) removal(e edit) (splice, error) {
	from := t.offset(e.at)
	_, to, err := t.extent(e.node)
	if err != nil {
		return splice{}, err
	}
	if t.above[e.node].inFlow {
		rest := string(t.source[to:])
		if after := strings.TrimLeft(rest, " \t\r\n"); strings.HasPrefix(after, ",") {
			after = strings.TrimLeft(after[1:], " ")
			return splice{from, to + len(rest) - len(after), ""}, nil
		}
		before := strings.TrimRight(string(t.source[:from]), " \t\r\n")
		return splice{len(strings.TrimSuffix(before, ",")), to, ""}, nil
	}
	begin := t.lines[e.at.Line-1]
	if strings.TrimSpace(string(t.source[begin:from])) == "" {
		return splice{begin, min(t.lineEnd(to)+1, len(t.source)), ""}, nil
	}
	return splice{}, errPlace
}

// replacement writes a value in the style of the old one.
func (t *sourceText) replacement(e edit, isJSON bool) (splice, error) {
	n := e.node
	from, to, err := t.extent(n)
	if err != nil {
		return splice{}, err
	}
	at := t.above[n]
	isBlock := n.Kind != yaml3.ScalarNode && n.Style&yaml3.FlowStyle == 0 && len(n.Content) > 0
	line := flow(e.value)
	switch {
	case isJSON:
		begin := t.lines[n.Line-1]
		indent := len(t.source[begin:]) - len(strings.TrimLeft(string(t.source[begin:]), " "))
		return splice{from, to, asJSON(e.value, string(t.source[from:to]), indent)}, nil
	case at.inFlow || n.Style&yaml3.FlowStyle != 0:
		return splice{from, to, line}, nil
	case isBlock && isCollection(e.value):
		return splice{from, to, block(e.value, n.Column-1)}, nil
	case isBlock && at.key != nil:
		_, keyEnd, err := t.extent(at.key)
		return splice{keyEnd, to, ": " + line}, err
	case at.key != nil && isCollection(e.value) && len(line) > flowWidth:
		indent := at.key.Column + 1
		_, keyEnd, err := t.extent(at.key)
		return splice{keyEnd, to, ":\n" + strings.Repeat(" ", indent) + block(e.value, indent)}, err
	case from == to:
		return splice{from, to, " " + line}, nil
	default:
		return splice{from, to, line}, nil
	}
}

// confirm reads the new files and checks the runs against them: all must pass, and only
// expectations may have changed.
func (s *Suite) confirm(verdicts []*Verdict, changed map[string][]byte, read func(string) ([]byte, error), again func(*Case) (*Verdict, error)) error {
	if len(changed) == 0 {
		return nil
	}
	after, _, err := NewLoader(func(file string) ([]byte, error) {
		if source, ok := changed[file]; ok {
			return source, nil
		}
		return read(file)
	}).Load(s.File)
	if err != nil {
		return fmt.Errorf("%s: the result cannot be written: %w", s.File, err)
	}
	if !canonical.Equal(unexpected(s.root), unexpected(after.root)) {
		return fmt.Errorf("%s: the result cannot be written without changing more than expectations", s.File)
	}
	for _, v := range verdicts {
		i := slices.Index(s.Cases, v.Case)
		if !bytes.Equal(v.Case.Input, after.Cases[i].Input) {
			return fmt.Errorf("%s:%d: the result cannot be written: its file is also the input of the case", s.File, v.Case.At.Line)
		}
		for _, d := range after.Cases[i].Check(v.Outcome) {
			if len(d.edits) > 0 {
				return fmt.Errorf("%s:%d: the result cannot be written: %s%s would still differ", s.File, v.Case.At.Line, d.Expect, d.Path)
			}
		}
		if len(v.Case.Seeds) == 1 {
			continue
		}
		all, err := again(after.Cases[i])
		if err != nil {
			return err
		}
		for _, d := range all.Differences {
			return fmt.Errorf("%s:%d: the result cannot be written: with seed %d, %s%s differs from that with seed %d",
				s.File, v.Case.At.Line, all.Outcome.Seed, d.Expect, d.Path, v.Outcome.Seed)
		}
	}
	return nil
}

// unexpected returns a test file as data without its expectations.
func unexpected(root *yaml3.Node) any {
	v := yaml.NewReader("", nil).Data(root)
	file, ok := v.(map[string]any)
	if !ok {
		return v
	}
	cases, ok := file["tests"].([]any)
	if !ok {
		return v
	}
	for _, one := range cases {
		if c, ok := one.(map[string]any); ok {
			delete(c, "expect")
		}
	}
	return v
}
