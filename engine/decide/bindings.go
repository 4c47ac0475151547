package decide

import (
	"encoding/json"
	"maps"
	"slices"

	"flunq.io/flunq/engine/expr/canonical"
)

// bindings is a small map from variables to values. Its JSON form is an object.
type bindings []binding

type binding struct {
	name  string
	value any
}

// bind adds a variable or replaces its value.
func (b bindings) bind(name string, value any) bindings {
	for i := range b {
		if b[i].name == name {
			b[i].value = value
			return b
		}
	}
	return append(b, binding{name, value})
}

func (b bindings) find(name string) (value any, ok bool) {
	for i := range b {
		if b[i].name == name {
			return b[i].value, true
		}
	}
	return nil, false
}

// All yields the variables with their values.
func (b bindings) All(yield func(name string, value any) bool) {
	for _, one := range b {
		if !yield(one.name, one.value) {
			return
		}
	}
}

// MarshalJSON encodes the variables, sorted by name.
func (b bindings) MarshalJSON() ([]byte, error) {
	object := make(map[string]any, len(b))
	for _, one := range b {
		object[one.name] = one.value
	}
	return canonical.Encode(object), nil
}

// UnmarshalJSON decodes the variables.
func (b *bindings) UnmarshalJSON(src []byte) error {
	var object map[string]Data
	if err := json.Unmarshal(src, &object); err != nil {
		return err
	}
	*b = nil
	for _, name := range slices.Sorted(maps.Keys(object)) {
		*b = append(*b, binding{name, object[name].V})
	}
	return nil
}
