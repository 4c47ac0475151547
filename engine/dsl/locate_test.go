package dsl_test

import (
	"testing"

	"flunq.io/flunq/engine/dsl"
)

// An error at run time leads to its expression, else to what failed.
func TestLocate(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("f.yaml", []byte(`document: {dsl: '1.0.3', namespace: shop, name: order, version: '1.0.0'}
input: {from: .order}
do:
  - a:
      if: .n + 1
      set:
        y: |
          ${ "a"
             + .n }
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		ref, detail string
		want        dsl.Pos
		ok          bool
	}{
		{"/do/0/a", `expression "\"a\"\n   + .n": cannot add`, dsl.Pos{Line: 8, Column: 14}, true},
		{"/do/0/a", `expression ".n + 1": cannot add`, dsl.Pos{Line: 5, Column: 11}, true},
		{"/do/0/a", "something else", dsl.Pos{Line: 4, Column: 5}, true},
		{"/input/from", `expression ".order": no`, dsl.Pos{Line: 2, Column: 15}, true},
		{"/do/7/z", "", dsl.Pos{}, false},
	} {
		if at, ok := def.Locate(tt.ref, tt.detail); at != tt.want || ok != tt.ok {
			t.Errorf("Locate(%s, %s) = %v %t, want %v %t", tt.ref, tt.detail, at, ok, tt.want, tt.ok)
		}
	}
}
