package budget

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// Matches that are charged one by one equal those that Go's regexp finds in one call.
func TestFindAllEqualsRegexp(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(1, 1))
	for _, pattern := range []string{
		"a*", "a*b|a", "(a.*c)|a", "^a*", "a*$", `\ba*`, `\Ba+`, "(?m)^.*$", "[^,]*", "(a)*(b)?", "x*", "(ä+)|𝄞*", "(?:a+|)b?", "(?i)A+", ".*", ".*?", "a+?", `\w+`, "(?s).*c",
	} {
		re, err := newRegex(pattern, "g")
		if err != nil {
			t.Fatal(err)
		}
		if !re.rescans {
			t.Errorf("%s: rescans is false, want true: finding a match may read far beyond it", pattern)
		}
		for range 300 {
			text := ""
			for range chance.IntN(12) {
				text += []string{"a", "a", "b", "c", ",", "\n", "ä", "𝄞", "\xff", " "}[chance.IntN(10)]
			}
			want := re.FindAllStringSubmatchIndex(text, 100)
			if got := re.findAll(NewMeter(), text, 100); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s in %q: found %v, want %v", pattern, text, got, want)
			}
		}
	}
}
