package dsl_test

import (
	"reflect"
	"slices"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr"
)

// The Values of each kind of call are all that its part of the document can contain.
func TestCallValues(t *testing.T) {
	t.Parallel()
	kinds := reflect.TypeFor[dsl.CallTask]()
	for i := range kinds.NumField() {
		field := kinds.Field(i)
		if field.Type.Kind() != reflect.Pointer || slices.Contains([]string{"Function", "With"}, field.Name) {
			continue
		}
		var task dsl.CallTask
		want := filled(reflect.ValueOf(&task).Elem().Field(i))
		got := task.Values()
		for path, v := range want {
			if !slices.Contains(got, v) {
				t.Errorf("%s%s is not among the Values", field.Name, path)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d Values, want %d", field.Name, len(got), len(want))
		}
	}
}

// filled sets all Values in v, and returns them by their paths.
func filled(v reflect.Value) map[string]*expr.Value {
	out := map[string]*expr.Value{}
	if v.Type() == reflect.TypeFor[*expr.Value]() {
		out[""] = expr.Literal(nil)
		v.Set(reflect.ValueOf(out[""]))
		return out
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	for i := range v.NumField() {
		if k := v.Field(i).Kind(); k == reflect.Pointer || k == reflect.Struct {
			for path, value := range filled(v.Field(i)) {
				out["."+v.Type().Field(i).Name+path] = value
			}
		}
	}
	return out
}
