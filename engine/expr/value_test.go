package expr_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/expr"
)

// A Value evaluates its expressions, keeps the rest, and lists its programs.
func TestValue(t *testing.T) {
	t.Parallel()
	v := expr.Object([]expr.Field{
		{Key: "a", Value: expr.Computed(compile(t, ".n"))},
		{Key: "b", Value: expr.List([]*expr.Value{expr.Literal(1), expr.Computed(compile(t, "$item"))})},
		{Key: "c", Value: expr.Computed(compile(t, ".n + 1"))},
	})
	got, err := v.Eval(scope(object{"n": 3}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object{"a": 3, "b": list{1, "one"}, "c": 4}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var sources []string
	for p := range v.Programs {
		sources = append(sources, p.Source())
	}
	if diff := cmp.Diff([]string{".n", "$item", ".n + 1"}, sources); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for range v.Programs {
		break
	}
}
