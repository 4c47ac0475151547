package wire

import (
	"maps"
	"slices"
)

// Fields of a stream entry alternate names and values.

// SortFields sorts fields by name. Of several fields with one name it keeps only the last.
func SortFields(fields []string) []string {
	const few = 64
	if len(fields) > few {
		return FieldList(FieldMap(fields))
	}
	n := 0
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		at := n
		for at > 0 && fields[at-2] > name {
			at -= 2
		}
		if at > 0 && fields[at-2] == name {
			fields[at-1] = value
			continue
		}
		copy(fields[at+2:n+2], fields[at:n])
		fields[at], fields[at+1] = name, value
		n += 2
	}
	return fields[:n]
}

// FieldMap returns the values of fields by their names.
func FieldMap(fields []string) map[string]string {
	out := make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		out[fields[i]] = fields[i+1]
	}
	return out
}

// FieldList returns the fields in a map, sorted by name.
func FieldList(fields map[string]string) []string {
	out := make([]string, 0, 2*len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, name, fields[name])
	}
	return out
}
