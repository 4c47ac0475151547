package expr

import (
	"strings"

	"flunq.io/flunq/engine/lazyregexp"
)

var countedMember = lazyregexp.New(`((?:\.[A-Za-z_]\w*)+)\.(?:length|size|count)\b`)

// Advice suggests what to write instead of an expression that failed with the given error detail;
// "" if it has no suggestion.
func Advice(detail string) string {
	has := func(part string) bool { return strings.Contains(detail, part) }
	switch m := countedMember().FindStringSubmatch(detail); {
	case has("expected an object but got: array") && m != nil:
		return "to count, write: " + m[1] + " | length"
	case has("expected an object but got: array"):
		return "a member of each item is .[].name, of the first item .[0].name"
	case has("cannot iterate over: null"):
		return "the list is missing: if that is allowed, write (.items // [])"
	case has("cannot divide") && has("by: number (0)"):
		return "check for 0 first: if .b == 0 then … else .a / .b end"
	case (has("cannot add") || has("cannot subtract") || has("cannot multiply") || has("cannot divide")) && hasNull().MatchString(detail):
		return "null stands for a missing member: write (.name // 0) where it may be"
	case has("cannot add: string") && has("number (") || has("cannot add: number") && has("string ("):
		return "convert both to the same type: … | tonumber, or … | tostring; for text: \"\\(.name)\""
	case has("cannot be applied to: null"):
		return "null stands for a missing member: write (.name // \"\") where it may be"
	case fraction().MatchString(detail):
		return `fromdate takes no fractions of seconds: … | sub("\\.[0-9]+"; "") | fromdate`
	default:
		return ""
	}
}

var fraction = lazyregexp.New(`^expression .*strptime\(.*%z.*\) cannot be applied to "[^"]*:\d\d\.\d+`)

var hasNull = lazyregexp.New(`: null and |and null|cannot divide null|by: null`)
