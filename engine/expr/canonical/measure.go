package canonical

import (
	"math"
	"math/big"
)

const unlimited = math.MaxInt

// Measure estimates the number of bytes that Encode returns, and the memory of v in bytes.
func Measure(v any) (size, memory int) {
	s := sizer{limit: unlimited, space: unlimited, depth: unlimited}
	s.add(v, 0)
	return s.sum, s.memory
}

// Size estimates the number of bytes that Encode returns. Above limit it stops counting. It
// fails if v is too deep, or takes more memory than MaxMemory.
func Size(v any, limit int) (int, error) {
	s := sizer{limit: limit, space: MaxMemory, depth: MaxDepth}
	s.add(v, 0)
	switch {
	case s.deep:
		return 0, ErrDepth
	case s.sum <= s.limit && s.memory > s.space:
		return 0, errLarge
	default:
		return s.sum, nil
	}
}

// sizer stops at its limits: a value that contains itself many times may be small in
// memory and yet take forever to walk through.
type sizer struct {
	sum, limit, depth int
	memory, space     int
	deep              bool
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
		s.sum += Digits(v)
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
	return s.deep || s.sum > s.limit || s.memory > s.space
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

// Digits estimates the number of decimal digits of n.
func Digits(n *big.Int) int { return n.BitLen()*3/10 + 2 }
