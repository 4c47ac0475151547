package dsl_test

import (
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
)

// A run-time error is located at its expression, else at the task that failed.
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
		want        yaml.Pos
		ok          bool
	}{
		{"/do/0/a", `expression "\"a\"\n   + .n": cannot add`, yaml.Pos{Line: 8, Column: 14}, true},
		{"/do/0/a", `expression ".n + 1": cannot add`, yaml.Pos{Line: 5, Column: 11}, true},
		{"/do/0/a", "something else", yaml.Pos{Line: 4, Column: 5}, true},
		{"/input/from", `expression ".order": no`, yaml.Pos{Line: 2, Column: 15}, true},
		{"/do/7/z", "", yaml.Pos{}, false},
	} {
		if at, ok := def.Locate(tt.ref, tt.detail); at != tt.want || ok != tt.ok {
			t.Errorf("Locate(%s, %s) = %v %t, want %v %t", tt.ref, tt.detail, at, ok, tt.want, tt.ok)
		}
	}
}

// A violation of a JSON Schema is located at the keyword that it names, anywhere in the
// schema.
func TestLocateViolation(t *testing.T) {
	t.Parallel()
	def := parse(t, `input:
  schema:
    document:
      required: [id]
      $defs:
        item: {properties: {qty: {type: integer, minimum: 0}}}
      properties:
        items: {items: {$ref: '#/$defs/item'}}
        either:
          oneOf:
            - {maxLength: 2}
            - {type: object, additionalProperties: {const: 1}}
do:
  - a:
      set: {n: 1}
      output: {schema: {document: {properties: {"a b": {enum: [1]}}}}}
`)
	for _, tt := range []struct {
		ref, detail string
		want        yaml.Pos
	}{
		{"/input", "the workflow's input does not match its schema: .items[2].qty is -1, want minimum 0", yaml.Pos{Line: 7, Column: 50}},
		{"/input", "the workflow's input does not match its schema: it lacks the property \"id\"\nmore", yaml.Pos{Line: 5, Column: 7}},
		{"/input", "the workflow's input does not match its schema: .either has 3 characters, want maxLength 2", yaml.Pos{Line: 12, Column: 16}},
		{"/input", "the workflow's input does not match its schema: .either.x is 2, want const 1", yaml.Pos{Line: 13, Column: 53}},
		{"/do/0/a", "output does not match its schema: .\"a b\" is 2, want enum 1", yaml.Pos{Line: 17, Column: 57}},
	} {
		if at, ok := def.Locate(tt.ref, tt.detail); !ok || at != tt.want {
			t.Errorf("%s: got %v, want %v", tt.detail, at, tt.want)
		}
	}
}
