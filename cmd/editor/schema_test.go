package editor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"flunq.io/flunq/cmd/editor"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/spec"
)

// compiled returns the schema of a kind of file, as an editor reads it.
func compiled(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	if err := c.AddResource("flunq:///"+kind, plain(t, editor.Schema(kind))); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("flunq:///" + kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plain converts data to JSON's types.
func plain(t *testing.T, v any) any {
	t.Helper()
	src, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(strings.NewReader(string(src)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// specification returns the folder of the specification's own documents.
func specification(tb testing.TB) string {
	tb.Helper()
	folder := os.Getenv("FLUNQ_SPEC")
	if folder == "" {
		folder = "../../../shared/spec"
	}
	if _, err := os.Stat(folder); err != nil {
		tb.Skipf("NOT TESTED: the specification is not at %s (set FLUNQ_SPEC)", folder)
	}
	return folder
}

// files returns the content of the files that match a pattern, by name.
func files(tb testing.TB, patterns ...string) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			tb.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err != nil {
				tb.Fatal(err)
			}
			out[file] = text
		}
	}
	return out
}

// ownDocuments returns the workflows that come with flunq.
func ownDocuments(tb testing.TB) map[string][]byte {
	tb.Helper()
	all := files(tb, "../../workflows/*.yaml")
	maps.DeleteFunc(all, func(file string, _ []byte) bool {
		return strings.HasSuffix(file, ".mocks.yaml") || strings.HasSuffix(file, ".test.yaml")
	})
	return all
}

// officialDocuments returns the examples of the specification.
func officialDocuments(tb testing.TB) map[string][]byte {
	tb.Helper()
	folder := specification(tb)
	return files(tb, folder+"/examples/*/*.yaml", folder+"/examples/*/dsl-reference/*.yaml")
}

// The schema describes the arguments of each call that can run.
func TestSchemaOfCalls(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(editor.Schema("workflow"))
	if err != nil {
		t.Fatal(err)
	}
	for kind := range reflect.TypeFor[dsl.CallTask]().Fields() {
		if kind.Type.Kind() != reflect.Pointer || kind.Name == "Function" || kind.Name == "With" {
			continue
		}
		if protocol := strings.ToLower(kind.Name); !strings.Contains(string(text), `"with":{"$ref":"#/definitions/`+protocol+`"}`) {
			t.Errorf("schema.yaml has no definition for the arguments of call: %s", protocol)
		}
	}
}

// agree changes documents in one place each, and compares the verdicts of the schema and the reader.
type agree struct {
	*testing.T
	schema           *jsonschema.Schema
	read             func(file string, text []byte) error
	oneOf            uint32 // one in this many changes is tried
	checked, refused int
}

func (a *agree) document(file string, text []byte) {
	data, err := dsl.ParseData(file, text)
	if err != nil {
		a.Fatal(err)
	}
	doc := plain(a.T, data)
	if err := a.schema.Validate(doc); err != nil {
		a.Errorf("%s: %v", file, err)
	}
	mutate(doc, "", func(what string, mutant any) {
		if !sampled(filepath.Base(file)+what, a.oneOf) {
			return
		}
		src, err := json.Marshal(mutant)
		if err != nil {
			a.Fatal(err)
		}
		err = a.read(file, src)
		mistake := a.schema.Validate(mutant)
		a.checked++
		switch {
		case mistake != nil && err == nil && !stricter(what):
			a.Errorf("%s: %s: the reader accepts it, the schema says %v", file, what, mistake)
		case mistake == nil && err != nil && !beyond(err):
			a.Errorf("%s: %s: the schema accepts it, the reader says %v", file, what, err)
		}
		if mistake != nil {
			a.refused++
		}
	})
}

// The examples match the schema, and for any change to them the schema and the reader agree, as far
// as a schema can express it.
func TestSchemaAgreesWithReader(t *testing.T) {
	t.Parallel()
	a := &agree{T: t, schema: compiled(t, "workflow"), oneOf: 40, read: func(file string, text []byte) error {
		_, _, err := dsl.Parse(file, text)
		return err
	}}
	for file, text := range ownDocuments(t) {
		a.document(file, text)
	}
	for file, text := range officialDocuments(t) {
		a.document(file, text)
	}
	t.Logf("%d changes, %d refused", a.checked, a.refused)
	if a.refused < 500 {
		t.Errorf("only %d changes are refused: the test tests nothing", a.refused)
	}
}

func TestSchemaAgreesWithMocks(t *testing.T) {
	t.Parallel()
	a := &agree{T: t, schema: compiled(t, "mocks"), oneOf: 4, read: func(file string, text []byte) error {
		_, err := mock.Parse(file, text)
		return err
	}}
	for file, text := range files(t, "../../workflows/*.mocks.yaml") {
		a.document(file, text)
	}
	t.Logf("%d changes, %d refused", a.checked, a.refused)
}

func TestSchemaAgreesWithTests(t *testing.T) {
	t.Parallel()
	a := &agree{T: t, schema: compiled(t, "test"), oneOf: 15, read: func(file string, text []byte) error {
		_, _, err := spec.NewLoader(func(name string) ([]byte, error) {
			if name == file {
				return text, nil
			}
			return os.ReadFile(name)
		}).Load(file)
		return err
	}}
	for file, text := range files(t, "../../workflows/*.test.yaml") {
		a.document(file, text)
	}
	t.Logf("%d changes, %d refused", a.checked, a.refused)
}

// stricter reports whether the schema deliberately refuses a change about which the reader only
// warns.
func stricter(what string) bool {
	return what == "/zzzUnheardOf added"
}

// beyond reports whether a schema cannot express what the reader found.
func beyond(err error) bool {
	var mistakes *yaml.Mistakes
	if !errors.As(err, &mistakes) {
		return false
	}
	for _, m := range mistakes.List {
		known := slices.ContainsFunc([]string{
			"unknown retry policy", "unknown error", "unknown timeout", "unknown authentication", "unknown call", "unknown catalog",
			"then: no task", "in another list", "has no value here", "there is no variable", "the expression ", "second case without when",
			"JSON schema", "schema: ", "five fields of a cron", "JSON pointer", "RFC 3339", "is not a URI", "no such file", "is a directory", "elapsed:", "no task ",
		}, func(part string) bool { return strings.Contains(m.Message, part) })
		if !known {
			return false
		}
	}
	return true
}

var allowedKeys = regexp.MustCompile(`^(?:allowed keys: |want one of )(.*)$`)

// At every place in the examples, the schema has exactly the keys that the reader knows.
func TestSchemaHasAllKeys(t *testing.T) {
	t.Parallel()
	compared := 0
	for file, text := range files(t, specification(t)+"/examples/main-*/*.yaml", specification(t)+"/examples/main-*/dsl-reference/*.yaml") {
		data, err := dsl.ParseData(file, text)
		if err != nil {
			t.Fatal(err)
		}
		mutate(plain(t, data), "", func(what string, mutant any) {
			path, added := strings.CutSuffix(what, "/zzzUnheardOf added")
			if !added {
				return
			}
			src, err := json.Marshal(mutant)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = dsl.Parse(file, src)
			var mistakes *yaml.Mistakes
			if !errors.As(err, &mistakes) {
				return
			}
			for _, m := range mistakes.List {
				allowed := allowedKeys.FindStringSubmatch(m.Suggestion)
				if allowed == nil || !strings.Contains(m.Message, "zzzUnheardOf") {
					continue
				}
				want := strings.Split(allowed[1], ", ")
				got, free := editor.KeysAt("workflow", path, mutant)
				if strings.Contains(m.Message, "in task") { // for a task, the reader lists the keys of its kind
					got = slices.DeleteFunc(got, func(key string) bool { return !slices.Contains(free, key) && !present(mutant, path, key) })
				}
				// The reader lists either use or what it replaces, and ignores that a do may belong to a for.
				odd := func(key string) bool {
					return !slices.Contains(want, key) && strings.Contains(m.Message, "in authentication") && (key == "use" || present(mutant, path, "use")) ||
						key == "for" && present(mutant, path, "do")
				}
				got, want = slices.DeleteFunc(got, odd), slices.DeleteFunc(want, odd)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s: %s: the schema has %v, the reader %v", file, path, got, want)
				}
				compared++
			}
		})
	}
	t.Logf("%d places compared", compared)
	if compared < 100 {
		t.Errorf("only %d places compared", compared)
	}
}

// present reports whether the map at a JSON pointer has a key.
func present(doc any, path, key string) bool {
	for step := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[step]
		case []any:
			i, _ := strconv.Atoi(step)
			doc = v[i]
		}
	}
	m, _ := doc.(map[string]any)
	_, is := m[key]
	return is
}

func sampled(what string, oneOf uint32) bool {
	h := fnv.New32a()
	h.Write([]byte(what))
	return h.Sum32()%oneOf == 0
}

// mutate calls use with every document that differs from doc in one place.
func mutate(doc any, path string, use func(what string, mutant any)) {
	switch doc := doc.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(doc)) {
			less := maps.Clone(doc)
			delete(less, key)
			use(path+"/"+key+" deleted", less)
			mutate(doc[key], path+"/"+key, func(what string, mutant any) {
				changed := maps.Clone(doc)
				changed[key] = mutant
				use(what, changed)
			})
		}
		more := maps.Clone(doc)
		more["zzzUnheardOf"] = "x"
		use(path+"/zzzUnheardOf added", more)
	case []any:
		for i := range doc {
			mutate(doc[i], fmt.Sprintf("%s/%d", path, i), func(what string, mutant any) {
				changed := slices.Clone(doc)
				changed[i] = mutant
				use(what, changed)
			})
		}
	}
	for _, other := range []any{5, true, "", "text", []any{}, map[string]any{}, nil} {
		use(fmt.Sprintf("%s = %v", path, other), other)
	}
}
