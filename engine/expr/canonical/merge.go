package canonical

import "maps"

// Merge returns base with more merged into it, recursively, as jq's * does with objects. If one of
// them is not an object, it returns more.
func Merge(base, more any) any {
	b, ok := base.(map[string]any)
	if !ok {
		return more
	}
	add, ok := more.(map[string]any)
	if !ok {
		return more
	}
	out := make(map[string]any, len(b)+len(add))
	maps.Copy(out, b)
	for name, value := range add {
		if old, ok := out[name]; ok {
			value = Merge(old, value)
		}
		out[name] = value
	}
	return out
}
