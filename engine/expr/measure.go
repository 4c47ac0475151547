package expr

import (
	"errors"
	"fmt"
)

// errTooLarge is told to people as it stands.
var errTooLarge = fmt.Errorf("the result is larger than %d MiB", maxResult>>20)

var errTooDeep = errors.New("the result is too deep")

// measured is v in its canonical form, its size taken from left.
func measured(v any, left *int) (any, error) {
	if *left -= bounded(v, *left); *left < 0 {
		return nil, errTooLarge
	}
	return Canonical(v), nil
}

func bounded(v any, _ int) int { return Size(v) }
