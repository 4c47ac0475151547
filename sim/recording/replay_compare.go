package recording

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/expr/canonical"
)

// comparison defines when two pieces of data count as equal.
type comparison struct {
	ignore []string  // top-level members that may differ
	alias  [2]string // a string in the recording and its equivalent now
}

// mismatch is the first place where two pieces of data differ.
type mismatch struct {
	path          string // ".output.items[2]"; "" for the whole
	recorded, now any
	missing       [2]bool // whether the member is absent, recorded and now
}

// between returns the first difference between two JSON values; nil if they are equal.
func (c comparison) between(recorded, now []byte) *mismatch {
	if bytes.Equal(recorded, now) {
		return nil
	}
	a, b := dataOf(recorded), dataOf(now)
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok && len(c.ignore) > 0 {
			a, b = without(x, c.ignore), without(y, c.ignore)
		}
	}
	return c.compare("", a, b)
}

// dataOf decodes JSON; invalid JSON becomes a string.
func dataOf(text []byte) any {
	if len(text) == 0 {
		return nil
	}
	v, err := canonical.Decode(text)
	if err != nil {
		return string(text)
	}
	return v
}

func without(object map[string]any, names []string) map[string]any {
	out := maps.Clone(object)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

func (c comparison) compare(path string, a, b any) *mismatch {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return c.objects(path, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return c.lists(path, x, y)
		}
	case string:
		if b == any(c.alias[1]) && x == c.alias[0] && x != "" {
			return nil
		}
	}
	if canonical.Equal(a, b) {
		return nil
	}
	return &mismatch{path: path, recorded: a, now: b}
}

func (c comparison) objects(path string, a, b map[string]any) *mismatch {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		x, recorded := a[name]
		y, now := b[name]
		at := path + member(name)
		if recorded != now {
			return &mismatch{path: at, recorded: x, now: y, missing: [2]bool{!recorded, !now}}
		}
		if where := c.compare(at, x, y); where != nil {
			return where
		}
	}
	return nil
}

func (c comparison) lists(path string, a, b []any) *mismatch {
	for i := range max(len(a), len(b)) {
		at := path + "[" + strconv.Itoa(i) + "]"
		if i >= len(a) {
			return &mismatch{path: at, now: b[i], missing: [2]bool{true, false}}
		}
		if i >= len(b) {
			return &mismatch{path: at, recorded: a[i], missing: [2]bool{false, true}}
		}
		if where := c.compare(at, a[i], b[i]); where != nil {
			return where
		}
	}
	return nil
}

// member returns the path step to a member of an object.
func member(name string) string {
	plain := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if plain {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}
