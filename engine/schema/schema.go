// Package schema validates data against JSON Schemas, compiled once.
package schema

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPattern = 4 << 10 // bytes of a regular expression
	location   = "flunq:///schema"
)

// Schema is a compiled JSON Schema. It does not change: any number of goroutines may validate with it.
type Schema struct{ compiled *jsonschema.Schema }

// Compile makes a Schema of a JSON Schema document as data (2020-12 unless it names another draft).
// It loads nothing: a reference leads into the document itself or to a JSON Schema
// draft's own schema. Formats are asserted in all drafts, for that is what authors expect.
// The document is not to be changed afterwards.
func Compile(document any) (schema *Schema, err error) {
	defer func() {
		// The library panics at some documents that its own checks let through.
		if r := recover(); r != nil {
			schema, err = nil, fmt.Errorf("JSON schema: %v", r)
		}
	}()
	switch document.(type) {
	case bool, map[string]any:
	default:
		return nil, fmt.Errorf("JSON schema: a %s, want an object, true or false", typeName(document))
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(pattern)
	if err := c.AddResource(location, plain(document)); err != nil {
		return nil, fmt.Errorf("JSON schema: %w", err)
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, explain(err)
	}
	return &Schema{compiled}, nil
}

// nowhere is where all schemas are that are not in the document.
type nowhere struct{}

// errRemote is told to people as it stands.
var errRemote = errors.New("schemas outside the document cannot be referred to")

// Load refuses to.
func (nowhere) Load(string) (any, error) { return nil, errRemote }

// regex is a regular expression of a schema. Go's take time in proportion to
// text and expression.
type regex struct{ *regexp.Regexp }

func pattern(source string) (jsonschema.Regexp, error) {
	if len(source) > maxPattern {
		return nil, fmt.Errorf("regular expression of %d bytes, want at most %d", len(source), maxPattern)
	}
	compiled, err := regexp.Compile(source)
	if err != nil {
		return nil, fmt.Errorf("regular expression: %w", err)
	}
	return regex{compiled}, nil
}

// explain puts into words why a document is no schema.
func explain(err error) error {
	var remote *jsonschema.LoadURLError
	var invalid *jsonschema.SchemaValidationError
	switch {
	case errors.As(err, &remote):
		return fmt.Errorf("JSON schema: $ref %q: %w", remote.URL, errRemote)
	case errors.As(err, &invalid):
		if details, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			return fmt.Errorf("JSON schema: %w", newInvalid(details))
		}
		return fmt.Errorf("JSON schema: %w", invalid.Err)
	default:
		return fmt.Errorf("JSON schema: %w", err)
	}
}

// Validate says everything that is wrong with data, as an *Invalid, or nil.
func (s *Schema) Validate(data any) error {
	err := s.compiled.Validate(plain(data))
	var details *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &details):
		return newInvalid(details)
	default:
		return fmt.Errorf("validate data: %w", err)
	}
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case []any:
		return "list"
	case int, float64, *big.Int:
		return "number"
	default:
		return fmt.Sprintf("%T", v)
	}
}
