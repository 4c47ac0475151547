package schema_test

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/schema"
)

type (
	object = map[string]any
	list   = []any
)

func large(digits string) *big.Int {
	n, _ := new(big.Int).SetString(digits, 10)
	return n
}

// Each violation is a line with its path; valid data has none.
func TestValidate(t *testing.T) {
	t.Parallel()
	person := object{
		"type":     "object",
		"required": list{"name", "age"},
		"properties": object{
			"name": object{"type": "string", "minLength": 2},
			"age":  object{"type": "integer", "minimum": 0},
			"tags": object{"type": "array", "items": object{"enum": list{"a", "b"}}},
		},
		"additionalProperties": false,
	}
	tests := []struct {
		name   string
		schema any
		data   any
		want   []string
	}{
		{"fits", person, object{"name": "Ada", "age": 36, "tags": list{"a"}}, nil},
		{"every violation is reported", person, object{"name": "A", "tags": list{"a", "c"}, "x": 1}, []string{
			`it has the unknown property "x"`,
			`it lacks the property "age"`,
			`.name has 1 character, want minLength 2`,
			`.tags[1] is "c", want enum "a", "b"`,
		}},
		{"wrong type", person, list{}, []string{"it is an array, want type object"}},
		{"whole float is an integer", object{"type": "integer"}, 1.0, nil},
		{"fraction is no integer", object{"type": "integer"}, 1.5, []string{"it is a number, want type integer"}},
		{"large integer", object{"type": "integer", "minimum": large("1" + strings.Repeat("0", 30))}, large("2" + strings.Repeat("0", 30)), nil},
		{"too large an integer", object{"maximum": 10}, large("2" + strings.Repeat("0", 30)), []string{
			"it is 2" + strings.Repeat("0", 30) + ", want maximum 10",
		}},
		{"multiple of a fraction", object{"multipleOf": 0.1}, 0.3, nil},
		{"const compares by value", object{"const": 1}, 1.0, nil},
		{"alternatives", object{"oneOf": list{object{"type": "string"}, object{"type": "null"}}}, 1, []string{
			"it fits none of the alternatives", "it is a number, want type null", "it is a number, want type string",
		}},
		{"two alternatives", object{"oneOf": list{true, true}}, 1, []string{"it fits the alternatives 1 and 2, want exactly one"}},
		{"reference within", object{"$ref": "#/$defs/n", "$defs": object{"n": object{"type": "number"}}}, "x", []string{
			"it is a string, want type number",
		}},
		{"date-time", object{"format": "date-time"}, "yesterday", []string{`it is "yesterday", want format date-time: less than 20 characters long`}},
		{"email", object{"format": "email"}, "a@b.c", nil},
		{"draft-07", object{"$schema": "http://json-schema.org/draft-07/schema#", "items": list{object{"type": "string"}}}, list{1}, []string{
			".[0] is a number, want type string",
		}},
		{"false", false, nil, []string{"it is not allowed here"}},
		{"true", true, nil, nil},
		{"path is escaped", object{"additionalProperties": false, "properties": object{"a/b": false}}, object{"a/b": 1}, []string{
			`."a/b" is not allowed here`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := schema.Compile(tt.schema)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, lines(t, s.Validate(tt.data))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func lines(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*schema.Invalid](err); !ok {
		t.Fatalf("%v is not an *Invalid", err)
	}
	return strings.Split(err.Error(), "\n")
}

// Of very many violations only the first are reported.
func TestManyViolations(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile(object{"items": object{"type": "string"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{500, 399_000} {
		got := lines(t, s.Validate(make([]any, n)))
		if want := fmt.Sprintf("and %d more", n-20); len(got) != 21 || got[20] != want {
			t.Errorf("got %d lines, the last %q, want %q", len(got), got[len(got)-1], want)
		}
	}
}

// An invalid schema, or one that needs another document, is rejected with a reason.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		schema any
		want   string
	}{
		{"remote", object{"$ref": "https://example.com/x.json"}, "schemas outside the document cannot be referred to"},
		{"file", object{"$ref": "file:///etc/passwd"}, "schemas outside the document cannot be referred to"},
		{"neighbour", object{"$ref": "other.json"}, "schemas outside the document cannot be referred to"},
		{"remote dialect", object{"$schema": "https://example.com/dialect"}, `$schema "https://example.com/dialect": want a draft`},
		{"not there", object{"$ref": "#/$defs/x"}, `$ref "#/$defs/x": the document has no such part`},
		{"no anchor", object{"$ref": "#x"}, `$ref "#x": the document has no such part`},
		{"wrong type", object{"type": "strnig"}, ".type"},
		{"not a schema", "string", "a string, want an object"},
		{"null", nil, "a null, want an object"},
		{"regex", object{"pattern": "("}, "missing closing )"},
		{"long regex", object{"pattern": strings.Repeat("a", 5000)}, "want at most 4096"},
		{"itself", object{"$ref": "#"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := schema.Compile(tt.schema)
			if err == nil && tt.want == "" {
				err = s.Validate(1)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// Each of the formats rejects some text.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, format := range schema.Formats() {
		s, err := schema.Compile(object{"format": format})
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate("a b") == nil && s.Validate("(%zz{") == nil {
			t.Errorf("%s is not checked", format)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	s, err := schema.Compile(object{
		"type": "object", "required": list{"name"},
		"properties": object{"name": object{"type": "string"}, "age": object{"type": "integer"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	data := object{"name": "Ada", "age": 36}
	for b.Loop() {
		if err := s.Validate(data); err != nil {
			b.Fatal(err)
		}
	}
}
