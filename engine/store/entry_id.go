package store

import (
	"cmp"
	"strings"
)

// compareIDs says which of two entries of a stream comes first.
func compareIDs(a, b string) int {
	ms, number, _ := strings.Cut(a, "-")
	otherMS, otherNumber, _ := strings.Cut(b, "-")
	return cmp.Or(
		cmp.Compare(len(ms), len(otherMS)), cmp.Compare(ms, otherMS),
		cmp.Compare(len(number), len(otherNumber)), cmp.Compare(number, otherNumber),
	)
}
