package spec

import (
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// suiteReader reads a test file and the files that it names.
type suiteReader struct {
	*yaml.Reader
	loader *Loader
	folder string
	suite  *Suite
	files  []string
	errs   []error // mistakes of the files that it names
}

// file reads the whole file, starting with the settings for all cases, in whatever order
// they are written.
func (r *suiteReader) file(root *yaml3.Node) {
	shared := settings{Case: Case{Seeds: []uint64{1}, Start: sim.Epoch(), suite: r.suite}}
	var workflow, tests *yaml3.Node
	fields := r.settings(&shared)
	fields["workflow"] = func(n *yaml3.Node) { workflow = n }
	fields["with"] = r.Each("with", func(n *yaml3.Node) {
		if d := r.document(n, "with"); d != nil {
			r.suite.With = append(r.suite.With, d)
		}
	})
	fields["tests"] = func(n *yaml3.Node) { tests = n }
	r.Object(root, "a test file", fields, nil)
	r.workflow(root, workflow)
	if tests == nil {
		if root.Kind == yaml3.MappingNode {
			r.Errorf(root, "the file has no tests: want a list of cases below tests")
		}
		return
	}
	seen := map[string]int{}
	r.Each("tests", func(n *yaml3.Node) {
		c := r.testCase(n, shared)
		if line, twice := seen[c.Name]; twice && c.Name != "" {
			r.Errorf(n, "a second test with the name %q: the first is on line %d", c.Name, line)
		}
		seen[c.Name] = n.Line
		r.suite.Cases = append(r.suite.Cases, c)
	})(tests)
}

// workflow reads the document: the named one, or else the one next to the test file.
func (r *suiteReader) workflow(root, n *yaml3.Node) {
	if n != nil {
		r.suite.Workflow = r.document(n, "workflow")
		return
	}
	r.suite.Workflow = r.load(root, documentName(filepath.Base(r.suite.File)))
}

// documentName returns the name of the document next to a test file.
func documentName(file string) string {
	for _, suffix := range Suffixes() {
		if name, ok := strings.CutSuffix(file, suffix); ok {
			return name + strings.TrimPrefix(suffix, ".test")
		}
	}
	return file
}

// Suffixes returns the suffixes of test files.
func Suffixes() []string { return []string{".test.yaml", ".test.yml"} }

// path returns the path of a file that the test file names.
func (r *suiteReader) path(name string) string {
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.folder, name)
	}
	r.files = append(r.files, name)
	return name
}

// document reads the document whose name is the value of the key what.
func (r *suiteReader) document(n *yaml3.Node, what string) *Document {
	name := r.Text(n, what)
	if name != "" {
		return r.load(n, name)
	}
	if n.ShortTag() == "!!str" {
		r.Errorf(n, "%s is empty, want the name of a document", what)
	}
	return nil
}

func (r *suiteReader) load(n *yaml3.Node, name string) *Document {
	d, err := r.loader.document(r.path(name))
	if err != nil {
		r.named(n, err)
	}
	return d
}

// named records a failure of a file that the test file names: its mistakes, or that it
// cannot be read.
func (r *suiteReader) named(n *yaml3.Node, err error) {
	if _, ok := errors.AsType[*yaml.Mistakes](err); ok {
		if !slices.Contains(r.errs, err) {
			r.errs = append(r.errs, err)
		}
		return
	}
	r.Errorf(n, "%v", err)
}

// dataFile reads a data file that the test file names; nil if it fails.
func (r *suiteReader) dataFile(n *yaml3.Node, name string) *dataFile {
	t := r.loader.dataFile(r.path(name))
	if t.err != nil {
		r.named(n, t.err)
		return nil
	}
	return t
}

// settings holds the members that both a case and the whole file may have.
type settings struct {
	Case
	ownMocks  *mock.Set
	hasEvents bool // true even for an empty list
}

func (r *suiteReader) settings(s *settings) yaml.Fields {
	return yaml.Fields{
		"input":   func(n *yaml3.Node) { s.Input = canonical.Encode(r.dataOrFile(n)) },
		"mocks":   func(n *yaml3.Node) { r.mocks(n, s) },
		"secrets": func(n *yaml3.Node) { r.secrets(n, s) },
		"seed":    func(n *yaml3.Node) { s.Seeds = []uint64{r.seed(n)} },
		"seeds":   func(n *yaml3.Node) { s.Seeds = r.seeds(n) },
		"start": func(n *yaml3.Node) {
			start, err := time.Parse(time.RFC3339Nano, n.Value)
			if err != nil {
				r.Errorf(n, "start is %s, want a time such as 2026-01-31T08:00:00Z", yaml.Spelled(n))
			}
			s.Start = start.UTC()
		},
		"until": func(n *yaml3.Node) { s.Until = mock.Delay(r.Reader, n, "until") },
		"network": func(n *yaml3.Node) {
			on, ok := r.Data(n).(bool)
			if !ok {
				r.Errorf(n, "network is %s, want true or false", yaml.Spelled(n))
			}
			s.Network = on
		},
	}
}

// dataOrFile reads data, or the file that "@FILE" names.
func (r *suiteReader) dataOrFile(n *yaml3.Node) any {
	name, ok := fileName(n)
	if !ok {
		return r.Data(n)
	}
	v, _ := r.dataOf(n, name)
	return v
}

// dataOf reads a file that the test file names; false if it fails.
func (r *suiteReader) dataOf(n *yaml3.Node, name string) (v any, ok bool) {
	t := r.dataFile(n, name)
	if t == nil {
		return nil, false
	}
	v, err := t.data()
	if err != nil {
		r.named(n, err)
	}
	return v, err == nil
}

// fileName returns the name in a string of the form "@FILE".
func fileName(n *yaml3.Node) (name string, ok bool) {
	name, ok = namedFile(n)
	return name, ok && name != "" && n.Value[0] == '@'
}

// namedFile returns the name in a string of the form "FILE" or "@FILE".
func namedFile(n *yaml3.Node) (name string, ok bool) {
	return strings.TrimPrefix(n.Value, "@"), n.Kind == yaml3.ScalarNode && n.ShortTag() == "!!str"
}

// mocks reads mocks, or the name of their file.
func (r *suiteReader) mocks(n *yaml3.Node, s *settings) {
	name, ok := namedFile(n)
	if !ok {
		s.ownMocks, s.hasEvents = mock.Read(r.Reader, n), member(n, "events") != nil
		return
	}
	t := r.dataFile(n, name)
	if t == nil {
		return
	}
	mocks, err := t.mocks()
	if err != nil {
		r.named(n, err)
	}
	s.ownMocks, s.hasEvents = mocks, t.root != nil && member(t.root, "events") != nil
}

// secrets reads secrets, or the name of their file. Those of a case are added to those of the
// whole file.
func (r *suiteReader) secrets(n *yaml3.Node, s *settings) {
	var v any
	if name, ok := namedFile(n); !ok {
		v = r.Data(n)
	} else if v, ok = r.dataOf(n, name); !ok {
		return
	}
	own, ok := v.(map[string]any)
	if !ok {
		r.Errorf(n, "secrets is %s, want a map by name, or the name of a file with one", yaml.Spelled(n))
		return
	}
	all := map[string]any{}
	maps.Copy(all, s.Secrets)
	maps.Copy(all, own)
	s.Secrets = all
}

func (r *suiteReader) seed(n *yaml3.Node) uint64 {
	v, err := strconv.ParseUint(n.Value, 10, 64)
	if err != nil {
		r.Errorf(n, "seed is %s, want an integer", yaml.Spelled(n))
	}
	return v
}

// maxSeeds is the maximum number of runs of one case.
const maxSeeds = 10_000

var seedRange = regexp.MustCompile(`^(\d{1,15}):(\d{1,15})$`)

// seeds reads a list of numbers, or a range such as 1:20.
func (r *suiteReader) seeds(n *yaml3.Node) []uint64 {
	var out []uint64
	if n.Kind == yaml3.SequenceNode {
		r.Each("seeds", func(n *yaml3.Node) { out = append(out, r.seed(n)) })(n)
	} else if m := seedRange.FindStringSubmatch(n.Value); m != nil {
		from, _ := strconv.ParseUint(m[1], 10, 64) // the pattern limits the number of digits
		to, _ := strconv.ParseUint(m[2], 10, 64)
		for seed := from; seed <= to && len(out) <= maxSeeds; seed++ {
			out = append(out, seed)
		}
	}
	if len(out) == 0 || len(out) > maxSeeds {
		r.Errorf(n, "seeds: want a list of 1 to %d numbers, or a range such as 1:20", maxSeeds)
		return []uint64{1}
	}
	return out
}

func (r *suiteReader) testCase(n *yaml3.Node, shared settings) *Case {
	own := shared
	own.ownMocks, own.hasEvents = nil, false
	own.Name, own.node = "", n
	own.At = Place{r.suite.File, n.Line, n.Column}
	fields := r.settings(&own)
	fields["name"] = func(n *yaml3.Node) {
		own.Name = r.Text(n, "name")
		own.At = Place{r.suite.File, n.Line, n.Column}
	}
	var expect *yaml3.Node
	fields["expect"] = func(n *yaml3.Node) { expect = n }
	r.Object(n, "a test", fields, nil)
	if own.Name == "" && n.Kind == yaml3.MappingNode {
		r.Errorf(n, "the test has no name")
	}
	own.Mocks = combined(own, shared)
	c := own.Case
	c.Expect = r.expect(expect)
	return &c
}

// combined returns the mocks of a case: its own HTTP mocks come before those of the file, and
// its own events replace those of the file.
func combined(own, shared settings) *mock.Set {
	all := &mock.Set{}
	for _, s := range []settings{own, shared} {
		if s.ownMocks != nil {
			all.HTTP = slices.Concat(all.HTTP, s.ownMocks.HTTP)
		}
	}
	switch {
	case own.hasEvents:
		all.Events = own.ownMocks.Events
	case shared.ownMocks != nil:
		all.Events = shared.ownMocks.Events
	}
	return all
}
