package expr

import (
	"fmt"
	"math/big"
)

const (
	maxResults = 100_000
	maxResult  = 16 << 20 // bytes that Encode would write
)

// errTooLarge is shown to users as it is.
var errTooLarge = fmt.Errorf("the result is larger than %d MiB (limit expression-result)", maxResult>>20)

// Measure estimates the number of bytes that Encode returns, and the memory of v in bytes.
func Measure(v any) (size, memory int) {
	const all = int(^uint(0) >> 1)
	s := sizer{most: all, space: all, depth: all}
	s.add(v, 0)
	return s.sum, s.memory
}

// measured returns v in canonical form, and subtracts its size from left.
func measured(v any, left *int) (any, error) {
	s := sizer{most: *left, space: MaxMemory, depth: maxDepth}
	s.add(v, 0)
	switch {
	case s.deep:
		return nil, errDepth
	case s.sum > s.most:
		return nil, errTooLarge
	case s.memory > s.space:
		return nil, errLarge
	}
	*left -= s.sum
	return Canonical(v), nil
}

// sizer stops at its limits: a value that contains itself many times may be small in
// memory and yet take forever to walk through.
type sizer struct {
	sum, most, depth int
	memory, space    int
	deep             bool
}

func (s *sizer) add(v any, depth int) {
	s.memory += slotMemory
	switch v := v.(type) {
	case nil, bool:
		s.sum += 4
	case string:
		s.sum += len(v) + 2
		s.memory += textMemory + len(v)
	case int, float64:
		s.sum += 8
	case *big.Int:
		s.sum += digits(v)
	case []any:
		s.list(v, depth+1)
	case map[string]any:
		s.object(v, depth+1)
	default:
		s.add(adopt(v), depth)
	}
}

func (s *sizer) done(depth int) bool {
	s.deep = s.deep || depth > s.depth
	return s.deep || s.sum > s.most || s.memory > s.space
}

func (s *sizer) list(items []any, depth int) {
	s.sum += 2 + len(items)
	s.memory += listMemory
	for _, item := range items {
		if s.done(depth) {
			return
		}
		s.add(item, depth)
	}
}

func (s *sizer) object(fields map[string]any, depth int) {
	s.sum += 2
	s.memory += objectMemory + groupMemory*((len(fields)+groupMembers-1)/groupMembers)
	for key, field := range fields {
		if s.done(depth) {
			return
		}
		s.sum += len(key) + 4
		s.memory += textMemory + len(key)
		s.add(field, depth)
	}
}

// digits estimates the number of decimal digits of n.
func digits(n *big.Int) int { return n.BitLen()*3/10 + 2 }
