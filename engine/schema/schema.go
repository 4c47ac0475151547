// Package schema compiles JSON Schemas and validates data with them, within limits.
package schema

import (
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPattern = 4 << 10 // bytes of a regular expression
	location   = "flunq:///schema"
)

// Schema is a compiled JSON Schema. It is immutable and safe for concurrent use.
type Schema struct {
	document any

	mu   sync.Mutex
	free []*instance // idle instances; each validates one value at a time
}

// Compile compiles a JSON Schema document given as data (2020-12 unless it names another
// draft). It loads nothing: a reference must point into the document itself or to a JSON
// Schema draft's own schema. Formats are asserted in all drafts, as authors expect. The
// caller must not modify the document afterwards.
func Compile(document any) (schema *Schema, err error) {
	defer func() {
		// Package jsonschema panics on some documents that its own checks accept.
		if r := recover(); r != nil {
			schema, err = nil, fmt.Errorf("JSON schema: %v", r)
		}
	}()
	switch document.(type) {
	case bool, map[string]any:
	default:
		return nil, fmt.Errorf("JSON schema: a %s, want an object, true or false", typeName(document))
	}
	if parts(document) > maxParts {
		return nil, errParts
	}
	schema = &Schema{document: plain(document)}
	first, err := schema.instance()
	if err != nil {
		return nil, err
	}
	schema.free = []*instance{first}
	return schema, nil
}

// parts returns the number of objects in a document.
func parts(v any) int {
	sum := 0
	switch v := v.(type) {
	case map[string]any:
		sum++
		for _, field := range v {
			sum += parts(field)
		}
	case []any:
		for _, item := range v {
			sum += parts(item)
		}
	}
	return sum
}

// instance compiles the document.
func (s *Schema) instance() (*instance, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(nowhere{})
	left := maxAll
	c.UseRegexpEngine(func(source string) (jsonschema.Regexp, error) {
		r, err := pattern(source)
		if err != nil {
			return nil, err
		}
		if left -= r.states; left < 0 {
			return nil, errAllStates
		}
		return r, nil
	})
	if err := c.AddResource(location, s.document); err != nil {
		return nil, fmt.Errorf("JSON schema: %w", err)
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, s.explain(err)
	}
	var anchors []*jsonschema.Schema
	for _, at := range dynamic(s.document, "") {
		if anchor, err := c.Compile(location + "#" + at); err == nil {
			anchors = append(anchors, anchor)
		}
	}
	return newInstance(compiled, anchors), nil
}

// dynamic returns the subschemas that a reference may point to from anywhere, as JSON
// pointers in a URL.
func dynamic(v any, at string) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		if v["$dynamicAnchor"] != nil || v["$recursiveAnchor"] != nil {
			out = append(out, at)
		}
		for key, field := range v {
			out = append(out, dynamic(field, at+"/"+url.PathEscape(escaped(key)))...)
		}
	case []any:
		for i, item := range v {
			out = append(out, dynamic(item, at+"/"+strconv.Itoa(i))...)
		}
	}
	return out
}

// nowhere is a loader that finds no schemas outside the document.
type nowhere struct{}

// errRemote is shown to users unchanged.
var errRemote = errors.New("schemas outside the document cannot be referred to")

// Load always returns errRemote.
func (nowhere) Load(string) (any, error) { return nil, errRemote }

// regex is a regular expression of a schema. Go's matching takes time proportional to text and
// expression.
type regex struct {
	*regexp.Regexp
	states int
}

func pattern(source string) (regex, error) {
	if len(source) > maxPattern {
		return regex{}, fmt.Errorf("regular expression of %d bytes, want at most %d", len(source), maxPattern)
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return regex{}, fmt.Errorf("regular expression: %w", err)
	}
	size := stateCount(tree)
	if size > maxStates {
		return regex{}, errStates
	}
	compiled, err := regexp.Compile(source)
	if err != nil {
		return regex{}, fmt.Errorf("regular expression: %w", err)
	}
	return regex{compiled, size}, nil
}

// explain explains why the document is not a valid schema.
func (s *Schema) explain(err error) error {
	var remote *jsonschema.LoadURLError
	var invalid *jsonschema.SchemaValidationError
	var noPart *jsonschema.JSONPointerNotFoundError
	var noAnchor *jsonschema.AnchorNotFoundError
	missing := func(reference string) error {
		return fmt.Errorf("JSON schema: $ref %q: the document has no such part", strings.TrimPrefix(reference, location))
	}
	document, _ := s.document.(map[string]any)
	switch {
	case errors.As(err, &noPart):
		return missing(noPart.URL)
	case errors.As(err, &noAnchor):
		return missing(noAnchor.Reference)
	case errors.As(err, &remote) && document["$schema"] == remote.URL:
		return fmt.Errorf("JSON schema: $schema %q: want a draft, such as https://json-schema.org/draft/2020-12/schema", remote.URL)
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

// Validate returns an *Invalid if data violates the schema or takes too long to check: its work is bounded.
func (s *Schema) Validate(data any) error {
	i, err := s.take()
	if err != nil {
		return err
	}
	err = i.check(plain(data))
	s.mu.Lock()
	s.free = append(s.free, i)
	s.mu.Unlock()
	var details *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSteps):
		return &Invalid{Violations: []Violation{{Message: err.Error()}}}
	case errors.As(err, &details):
		return newInvalid(details)
	default:
		return fmt.Errorf("validate data: %w", err)
	}
}

// take returns an idle instance, or a new one.
func (s *Schema) take() (*instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		i := s.free[last]
		s.free = s.free[:last]
		return i, nil
	}
	return s.instance()
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
