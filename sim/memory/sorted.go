package memory

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// sorted is a sorted set.
type sorted struct {
	ranked []ranked
	scores map[string]float64 // nil if there are few
}

// ranked is a member and its score. Members are ordered by score, then by name.
type ranked struct {
	score  float64
	member string
}

func (r ranked) compare(other ranked) int {
	if r.score != other.score {
		return cmp.Compare(r.score, other.score)
	}
	return strings.Compare(r.member, other.member)
}

// fewMembers is the number of members up to which a linear search is fast enough.
const fewMembers = 24

func (z *sorted) score(member string) (float64, bool) {
	if z == nil {
		return 0, false
	}
	if z.scores != nil {
		score, ok := z.scores[member]
		return score, ok
	}
	for i := range z.ranked {
		if z.ranked[i].member == member {
			return z.ranked[i].score, true
		}
	}
	return 0, false
}

// put sets the score of a member.
func (z *sorted) put(member string, score float64) {
	if old, ok := z.score(member); ok {
		if old == score {
			return
		}
		z.removeRanked(ranked{old, member})
	}
	at, _ := slices.BinarySearchFunc(z.ranked, ranked{score, member}, ranked.compare)
	z.ranked = slices.Insert(z.ranked, at, ranked{score, member})
	switch {
	case z.scores != nil:
		z.scores[member] = score
	case len(z.ranked) > fewMembers:
		z.scores = make(map[string]float64, len(z.ranked))
		for _, r := range z.ranked {
			z.scores[r.member] = r.score
		}
	}
}

// removeRanked removes a member with its score.
func (z *sorted) removeRanked(r ranked) {
	if at, ok := slices.BinarySearchFunc(z.ranked, r, ranked.compare); ok {
		z.ranked = slices.Delete(z.ranked, at, at+1)
		delete(z.scores, r.member)
	}
}

func (z *sorted) remove(member string) bool {
	score, ok := z.score(member)
	if ok {
		z.removeRanked(ranked{score, member})
	}
	return ok
}

func sortedCommands() map[string]command {
	return map[string]command{
		"zadd":             {zadd, -4},
		"zrem":             {removes((*sorted).remove, (*sorted).size), -3},
		"zremrangebyscore": {reads(zremRangeByScore), 4},
		"zremrangebyrank":  {reads(zremRangeByRank), 4},
		"zscore":           {reads(func(_ *Database, z *sorted, args []string) resp.Reply { return z.scoreText(args[2]) }), 3},
		"zmscore":          {reads(zmscore), -3},
		"zcard":            {reads(func(_ *Database, z *sorted, _ []string) resp.Reply { return resp.Int(z.size()) }), 2},
		"zcount":           {reads(zcount), 4},
		"zrank":            {reads(func(_ *Database, z *sorted, args []string) resp.Reply { return z.rank(args[2]) }), 3},
		"zscan":            {scans(2, (*sorted).pairs), -3},
		"zrange":           {reads(zrange), -4},
		"zrangebyscore":    {reads(zrange), -4},
		"zrevrange":        {reads(zrange), -4},
		"zrevrangebyscore": {reads(zrange), -4},
	}
}

func (z *sorted) size() int { return len(z.ranked) }

// pairs returns the members with their scores.
func (z *sorted) pairs() (out []string) {
	for _, r := range z.ranked {
		out = append(out, r.member, written(r.score))
	}
	return out
}

// written formats a score like Redis, with 17 digits as C's %.17g.
func written(score float64) string { return lua.Number(score, 17) }

// scored parses a score.
func scored(text string) (float64, bool) {
	score, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(score, 0) || math.IsNaN(score) || strings.ContainsAny(text, "_pP") {
		return 0, false
	}
	return score, true
}

// scoreText returns the score of a member as a reply.
func (z *sorted) scoreText(member string) resp.Reply {
	if score, ok := z.score(member); ok {
		return resp.Text(written(score))
	}
	return resp.Reply{}
}

func zmscore(db *Database, z *sorted, args []string) resp.Reply {
	out := db.makeReplies(len(args) - 2)
	for i, member := range args[2:] {
		out[i] = z.scoreText(member)
	}
	return resp.List(out...)
}

func zcount(_ *Database, z *sorted, args []string) resp.Reply {
	from, to, ok := z.between(args[2], args[3])
	if !ok {
		return resp.Fail(noBound)
	}
	return resp.Int(to - from)
}

// rank implements ZRANK.
func (z *sorted) rank(member string) resp.Reply {
	score, ok := z.score(member)
	if !ok {
		return resp.Reply{}
	}
	at, _ := slices.BinarySearchFunc(z.ranked, ranked{score, member}, ranked.compare)
	return resp.Int(at)
}

// removeRange removes a range of members, and the key with its last member.
func removeRange(db *Database, key string, z *sorted, from, to int) resp.Reply {
	for _, r := range z.ranked[from:to] {
		delete(z.scores, r.member)
	}
	z.ranked = slices.Delete(z.ranked, from, to)
	if to > from && len(z.ranked) == 0 {
		delete(db.keys, key)
	}
	return resp.Int(to - from)
}

func zremRangeByScore(db *Database, z *sorted, args []string) resp.Reply {
	from, to, ok := z.between(args[2], args[3])
	if !ok {
		return resp.Fail(noBound)
	}
	return removeRange(db, args[1], z, from, to)
}

func zremRangeByRank(db *Database, z *sorted, args []string) resp.Reply {
	from, to, ok := span(args[2], args[3], len(z.ranked))
	if !ok {
		return resp.Fail(noInteger)
	}
	return removeRange(db, args[1], z, from, to)
}

// addingOptions parses the options of ZADD, and returns the scores and members after them.
func addingOptions(args []string) (nx, xx bool, pairs []string, bad string) {
	for ; len(args) > 0; args = args[1:] {
		switch strings.ToLower(args[0]) {
		case "nx":
			nx = true
			continue
		case "xx":
			xx = true
			continue
		}
		break
	}
	switch {
	case len(args) == 0 || len(args)%2 != 0:
		return nx, xx, nil, syntax
	case nx && xx:
		return nx, xx, nil, "ERR XX and NX options at the same time are not compatible"
	default:
		return nx, xx, args, ""
	}
}

func zadd(db *Database, args []string) resp.Reply {
	nx, xx, pairs, bad := addingOptions(args[2:])
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
	case z == nil && xx:
		return resp.Int(0)
	case z == nil:
		z, _ = ensure[sorted](db, args[1])
	}
	if db.Added != nil {
		db.Added(args[1], nil)
	}
	added := 0
	for i, score := range scores {
		member := pairs[2*i+1]
		_, exists := z.score(member)
		if nx && exists || xx && !exists {
			continue
		}
		if !exists {
			added++
		}
		z.put(member, score)
	}
	return resp.Int(added)
}
