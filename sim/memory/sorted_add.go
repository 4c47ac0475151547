package memory

import (
	"math"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// adding holds the options of ZADD.
type adding struct{ nx, xx, gt, lt, changed, incr bool }

// addingOptions parses the options, and returns the scores and members after them.
func addingOptions(args []string) (o adding, pairs []string, bad string) {
	for ; len(args) > 0; args = args[1:] {
		switch strings.ToLower(args[0]) {
		case "nx":
			o.nx = true
			continue
		case "xx":
			o.xx = true
			continue
		case "gt":
			o.gt = true
			continue
		case "lt":
			o.lt = true
			continue
		case "ch":
			o.changed = true
			continue
		case "incr":
			o.incr = true
			continue
		}
		break
	}
	switch {
	case len(args) == 0 || len(args)%2 != 0:
		return o, nil, syntax
	case o.nx && o.xx:
		return o, nil, "ERR XX and NX options at the same time are not compatible"
	case o.gt && o.lt || o.nx && (o.gt || o.lt):
		return o, nil, "ERR GT, LT, and/or NX options at the same time are not compatible"
	case o.incr && len(args) > 2:
		return o, nil, "ERR INCR option supports a single increment-element pair"
	default:
		return o, args, ""
	}
}

// allows reports whether the options allow a member to get a score.
func (a adding) allows(old, score float64, there bool) bool {
	switch {
	case !there:
		return !a.xx
	case a.nx:
		return false
	default:
		return (!a.gt || score > old) && (!a.lt || score < old)
	}
}

func zadd(db *Database, args []string) resp.Reply {
	o, pairs, bad := addingOptions(args[2:])
	if bad != "" {
		return resp.Fail(bad)
	}
	scores := make([]float64, 0, 4)
	for i := 0; i < len(pairs); i += 2 {
		score, ok := scored(pairs[i])
		if !ok {
			return resp.Fail(noFloat)
		}
		scores = append(scores, score)
	}
	z, ok := find[sorted](db, args[1])
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case z == nil && o.xx:
		if o.incr {
			return resp.Reply{}
		}
		return resp.Int(0)
	case z == nil:
		z, _ = ensure[sorted](db, args[1])
	}
	if db.Added != nil {
		db.Added(args[1], nil)
	}
	if o.incr {
		return z.increase(o, pairs[1], scores[0])
	}
	added, changed := 0, 0
	for i, score := range scores {
		member := pairs[2*i+1]
		old, there := z.score(member)
		if !o.allows(old, score, there) {
			continue
		}
		switch {
		case !there:
			added++
		case old != score:
			changed++
		}
		z.put(member, score)
	}
	if o.changed {
		added += changed
	}
	return resp.Int(added)
}

// increase implements ZADD INCR.
func (z *sorted) increase(o adding, member string, by float64) resp.Reply {
	old, there := z.score(member)
	score := old + by
	switch {
	case math.IsNaN(score):
		return resp.Fail(noFinite)
	case !o.allows(old, score, there):
		return resp.Reply{}
	}
	z.put(member, score)
	return resp.Text(written(score))
}

func zincrBy(db *Database, args []string) resp.Reply {
	by, ok := scored(args[2])
	if !ok {
		return resp.Fail(noFloat)
	}
	z, ok := ensure[sorted](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	return z.increase(adding{}, args[3], by)
}
