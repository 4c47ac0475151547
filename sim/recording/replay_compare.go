package recording

import (
	"bytes"
	"maps"

	"flunq.io/flunq/engine/expr/canonical"
)

// comparison defines when two pieces of data count as equal.
type comparison struct {
	ignore []string  // top-level members that may differ
	alias  [2]string // a string in the recording and its equivalent now
}

// between returns the first difference between recorded data, A, and that of the replay, B; nil if
// they are equal.
func (c comparison) between(recorded, now []byte) *canonical.Difference {
	if bytes.Equal(recorded, now) {
		return nil
	}
	a, b := canonical.DecodeOrText(recorded), canonical.DecodeOrText(now)
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok && len(c.ignore) > 0 {
			a, b = without(x, c.ignore), without(y, c.ignore)
		}
	}
	for d := range canonical.Differences(a, b) {
		if c.alias[0] == "" || d.A != any(c.alias[0]) || d.B != any(c.alias[1]) {
			return &d
		}
	}
	return nil
}

func without(object map[string]any, names []string) map[string]any {
	out := maps.Clone(object)
	for _, name := range names {
		delete(out, name)
	}
	return out
}
