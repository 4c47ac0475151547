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
		{Key: "c", Value: expr.Loose(compile(t, ".n.x"), "${ .n.x }")},
	})
	got, err := v.Eval(scope(object{"n": 3}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object{"a": 3, "b": list{1, "one"}, "c": "${ .n.x }"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var sources []string
	for p := range v.Programs {
		sources = append(sources, p.Source())
	}
	if diff := cmp.Diff([]string{".n", "$item", ".n.x"}, sources); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for range v.Programs {
		break
	}
}

// A loose Value ignores failures of its expression, but not a missing secret.
func TestLoose(t *testing.T) {
	t.Parallel()
	if _, err := expr.Loose(compile(t, "$secrets.NO"), "x").Eval(scope(nil)); err == nil {
		t.Error("no error for a missing secret")
	}
	if data, ok := expr.Loose(compile(t, "1"), "x").Constant(); ok {
		t.Errorf("constant %v", data)
	}
}
