package canonical

import (
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// Difference is a place where two values differ.
type Difference struct {
	Path     string // in the notation of jq, such as .items[2].id; "" for the values themselves
	A, B     any
	InA, InB bool // false if this value has no such member or element
}

// Differences returns the places where two values differ, as deep as possible, in the order of
// their members.
func Differences(a, b any) iter.Seq[Difference] {
	return func(yield func(Difference) bool) { differences("", a, b, yield) }
}

// differences reports whether to continue.
func differences(path string, a, b any, yield func(Difference) bool) bool {
	inside := func(path string, x, y any, inA, inB bool) bool {
		if inA && inB {
			return differences(path, x, y, yield)
		}
		return yield(Difference{path, x, y, inA, inB})
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			break
		}
		names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			x, inA := a[name]
			y, inB := b[name]
			if !inside(path+Member(name), x, y, inA, inB) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok {
			break
		}
		for i := range max(len(a), len(b)) {
			var x, y any
			if i < len(a) {
				x = a[i]
			}
			if i < len(b) {
				y = b[i]
			}
			if !inside(path+"["+strconv.Itoa(i)+"]", x, y, i < len(a), i < len(b)) {
				return false
			}
		}
		return true
	}
	return Equal(a, b) || yield(Difference{path, a, b, true, true})
}

// plainName matches the names of members that jq reads without quotes.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Member returns the step of a path to a member of an object, in the notation of jq.
func Member(name string) string {
	if plainName.MatchString(name) {
		return "." + name
	}
	return "." + strconv.Quote(name)
}
