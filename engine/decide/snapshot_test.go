package decide_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
)

// A snapshot in another format is not read: Replay rebuilds the state from its beginning.
func TestRestoreOtherFormat(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("case.yaml", []byte("document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}\ndo: [{one: {set: {n: 1}}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	env := decide.NewEnv(def, decide.Options{})
	for _, text := range []string{"", `{"Tenant":"default","Version":5,"Status":"running"}`, `{"format":3,"tenant":"default","version":5}`, `[]`} {
		state, err := decide.Restore(env, []byte(text))
		if err != nil || state.Version != 0 || state.Tenant != "" {
			t.Errorf("Restore(%s) is %+v, %v; want a state before the history", text, state, err)
		}
	}
}

// The form of a snapshot changes only together with its number.
func TestSnapshotForm(t *testing.T) {
	t.Parallel()
	const name = "testdata/snapshot-2.txt"
	form := &strings.Builder{}
	describe(t, form, map[reflect.Type]bool{}, "", reflect.TypeFor[decide.State]())
	got := form.String()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got): raise the number in snapshotHead and here, and -update writes the new form\n%s", name, diff)
	}
}

// describe writes the stored names of a type and of the types within it, each type once.
func describe(t *testing.T, form *strings.Builder, known map[reflect.Type]bool, path string, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if known[typ] || typ.Kind() != reflect.Struct || typ.Implements(reflect.TypeFor[json.Marshaler]()) {
		return
	}
	known[typ] = true
	for f := range typ.Fields() {
		if !f.IsExported() {
			continue
		}
		tag, declared := f.Tag.Lookup("json")
		if !declared && !f.Anonymous {
			t.Errorf("%v.%s has no name in the stored form", typ, f.Name)
		}
		name, _, _ := strings.Cut(tag, ",")
		at := strings.TrimPrefix(path+"."+name, ".")
		if f.Anonymous {
			at = path
		} else {
			fmt.Fprintf(form, "%s %v\n", at, f.Type.Kind())
		}
		describe(t, form, known, at, f.Type)
	}
}
