package wire

import (
	"maps"
	"slices"
)

// Fields of a stream entry alternate names and values.

// FieldMap returns the fields as a map from names to values.
func FieldMap(fields []string) map[string]string {
	out := make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		out[fields[i]] = fields[i+1]
	}
	return out
}

// FieldList is the inverse of FieldMap. It sorts the fields by name.
func FieldList(fields map[string]string) []string {
	out := make([]string, 0, 2*len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, name, fields[name])
	}
	return out
}
