// Package schema validates data against JSON Schemas, compiled once.
package schema

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled JSON Schema.
type Schema struct{ compiled *jsonschema.Schema }

// Compile makes a Schema of a JSON Schema document as data (2020-12 unless it names another draft).
func Compile(document any) (*Schema, error) {
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		return nil, fmt.Errorf("JSON schema: %w", err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		return nil, fmt.Errorf("JSON schema: %w", err)
	}
	return &Schema{compiled}, nil
}

// Validate says everything that is wrong with data, or nil.
func (s *Schema) Validate(data any) error { return s.compiled.Validate(data) }
