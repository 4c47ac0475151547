package memory

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// sortedSet is a sorted set: members with scores.
type sortedSet struct {
	members []scoredMember
	scores  map[string]float64 // nil if there are none
}

// scoredMember is a member and its score. Members are ordered by score, then by name.
type scoredMember struct {
	score  float64
	member string
}

func (r scoredMember) compare(other scoredMember) int {
	if r.score != other.score {
		return cmp.Compare(r.score, other.score)
	}
	return strings.Compare(r.member, other.member)
}

func (z *sortedSet) score(member string) (float64, bool) {
	score, ok := z.scores[member]
	return score, ok
}

// put sets the score of a member.
func (z *sortedSet) put(member string, score float64) {
	if old, ok := z.score(member); ok {
		if old == score {
			return
		}
		z.removeRanked(scoredMember{old, member})
	}
	at, _ := slices.BinarySearchFunc(z.members, scoredMember{score, member}, scoredMember.compare)
	z.members = slices.Insert(z.members, at, scoredMember{score, member})
	if z.scores == nil {
		z.scores = map[string]float64{}
	}
	z.scores[member] = score
}

// removeRanked removes a member with its score.
func (z *sortedSet) removeRanked(r scoredMember) {
	if at, ok := slices.BinarySearchFunc(z.members, r, scoredMember.compare); ok {
		z.members = slices.Delete(z.members, at, at+1)
		delete(z.scores, r.member)
	}
}

func (z *sortedSet) remove(member string) bool {
	score, ok := z.score(member)
	if ok {
		z.removeRanked(scoredMember{score, member})
	}
	return ok
}

func sortedCommands() map[string]command {
	return map[string]command{
		"zadd":             {zadd, -4},
		"zrem":             {removes((*sortedSet).remove, (*sortedSet).size), -3},
		"zremrangebyscore": {reads(zremRangeByScore), 4},
		"zremrangebyrank":  {reads(zremRangeByRank), 4},
		"zscore":           {reads(func(_ *Database, z *sortedSet, args []string) resp.Reply { return z.scoreText(args[2]) }), 3},
		"zmscore":          {reads(zmscore), -3},
		"zcard":            {reads(func(_ *Database, z *sortedSet, _ []string) resp.Reply { return resp.Int(z.size()) }), 2},
		"zcount":           {reads(zcount), 4},
		"zrank":            {reads(func(_ *Database, z *sortedSet, args []string) resp.Reply { return z.rank(args[2]) }), 3},
		"zscan":            {scans(2, (*sortedSet).pairs), -3},
		"zrange":           {reads(zrange), -4},
		"zrangebyscore":    {reads(zrange), -4},
		"zrevrange":        {reads(zrange), -4},
		"zrevrangebyscore": {reads(zrange), -4},
	}
}

func (z *sortedSet) size() int { return len(z.members) }

// pairs returns the members with their scores.
func (z *sortedSet) pairs() (out []string) {
	for _, r := range z.members {
		out = append(out, r.member, formatScore(r.score))
	}
	return out
}

// formatScore formats a score like Redis, with 17 digits as C's %.17g.
func formatScore(score float64) string { return lua.Number(score, 17) }

// parseScore parses a score.
func parseScore(text string) (float64, bool) {
	score, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(score) || strings.ContainsAny(text, "_pP") {
		return 0, false
	}
	return score, true
}

// scoreText returns the score of a member as a reply.
func (z *sortedSet) scoreText(member string) resp.Reply {
	if score, ok := z.score(member); ok {
		return resp.Text(formatScore(score))
	}
	return resp.Reply{}
}

func zmscore(_ *Database, z *sortedSet, args []string) resp.Reply {
	out := make([]resp.Reply, len(args)-2)
	for i, member := range args[2:] {
		out[i] = z.scoreText(member)
	}
	return resp.List(out...)
}

func zcount(_ *Database, z *sortedSet, args []string) resp.Reply {
	from, to := z.scoreRange(args[2], args[3])
	return resp.Int(to - from)
}

// rank implements ZRANK.
func (z *sortedSet) rank(member string) resp.Reply {
	score, ok := z.score(member)
	if !ok {
		return resp.Reply{}
	}
	at, _ := slices.BinarySearchFunc(z.members, scoredMember{score, member}, scoredMember.compare)
	return resp.Int(at)
}

// removeRange removes a range of members, and the key with its last member.
func removeRange(db *Database, key string, z *sortedSet, from, to int) resp.Reply {
	for _, r := range z.members[from:to] {
		delete(z.scores, r.member)
	}
	z.members = slices.Delete(z.members, from, to)
	if to > from && len(z.members) == 0 {
		delete(db.keys, key)
	}
	return resp.Int(to - from)
}

func zremRangeByScore(db *Database, z *sortedSet, args []string) resp.Reply {
	from, to := z.scoreRange(args[2], args[3])
	return removeRange(db, args[1], z, from, to)
}

func zremRangeByRank(db *Database, z *sortedSet, args []string) resp.Reply {
	from, to := indexRange(args[2], args[3], len(z.members))
	return removeRange(db, args[1], z, from, to)
}

// parseAddOptions parses the options of ZADD, and returns the scores and members after them.
func parseAddOptions(args []string) (nx, xx bool, pairs []string) {
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
		refuse(syntax)
	case nx && xx:
		refuse("ERR XX and NX options at the same time are not compatible")
	}
	return nx, xx, args
}

func zadd(db *Database, args []string) resp.Reply {
	nx, xx, pairs := parseAddOptions(args[2:])
	scores := make([]float64, 0, 4)
	for i := 0; i < len(pairs); i += 2 {
		score, ok := parseScore(pairs[i])
		if !ok {
			return resp.Fail(noFloat)
		}
		scores = append(scores, score)
	}
	z := find[sortedSet](db, args[1])
	switch {
	case z == nil && xx:
		return resp.Int(0)
	case z == nil:
		z = ensure[sortedSet](db, args[1])
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

const noBound = "ERR min or max is not a float"

// scoreBound is one end of a range of scores.
type scoreBound struct {
	score float64
	open  bool // excludes the score itself
}

func parseScoreBound(text string) scoreBound {
	text, open := strings.CutPrefix(text, "(")
	score, ok := parseScore(text)
	if !ok {
		refuse(noBound)
	}
	return scoreBound{score, open}
}

// scoreRange returns the range of members between two bounds.
func (z *sortedSet) scoreRange(low, high string) (from, to int) {
	least, most := parseScoreBound(low), parseScoreBound(high)
	from = sort.Search(len(z.members), func(i int) bool {
		return z.members[i].score > least.score || z.members[i].score == least.score && !least.open
	})
	to = sort.Search(len(z.members), func(i int) bool {
		return z.members[i].score > most.score || z.members[i].score == most.score && most.open
	})
	return from, max(from, to)
}

// rangeOptions holds the options of ZRANGE and the other commands that return ranges.
type rangeOptions struct {
	byScore, reverse, withScores, limited bool

	offset, count int64
}

func parseRangeOptions(args []string) (o rangeOptions) {
	name := strings.ToLower(args[0])
	o = rangeOptions{byScore: strings.HasSuffix(name, "byscore"), reverse: strings.HasPrefix(name, "zrev"), count: -1}
	for rest := args[4:]; len(rest) > 0; rest = rest[1:] {
		switch word := strings.ToLower(rest[0]); {
		case word == "withscores":
			o.withScores = true
		case word == "limit" && o.byScore && len(rest) > 2:
			o.offset, o.count = number(rest[1]), number(rest[2])
			o.limited, rest = true, rest[2:]
		default:
			refuse(syntax)
		}
	}
	return o
}

func zrange(_ *Database, z *sortedSet, args []string) resp.Reply {
	o := parseRangeOptions(args)
	low, high := args[2], args[3]
	if !o.byScore {
		from, to := indexRange(low, high, len(z.members))
		if o.reverse {
			from, to = len(z.members)-to, len(z.members)-from
		}
		return o.reply(z.members[from:to])
	}
	if o.reverse {
		low, high = high, low
	}
	from, to := z.scoreRange(low, high)
	return o.reply(z.members[from:to])
}

// reply returns the requested part of a range.
func (rg rangeOptions) reply(found []scoredMember) resp.Reply {
	if rg.limited {
		skip := min(rg.offset, int64(len(found)))
		if skip < 0 {
			skip = int64(len(found))
		}
		count := rg.count
		if count < 0 {
			count = math.MaxInt64
		}
		count = min(count, int64(len(found))-skip)
		if rg.reverse {
			found = found[int64(len(found))-skip-count : int64(len(found))-skip]
		} else {
			found = found[skip : skip+count]
		}
	}
	out := make([]string, 0, 2*len(found))
	for i := range found {
		r := found[i]
		if rg.reverse {
			r = found[len(found)-1-i]
		}
		out = append(out, r.member)
		if rg.withScores {
			out = append(out, formatScore(r.score))
		}
	}
	return resp.Strings(slices.Clip(out))
}

// indexRange parses the first and the last index of a range, where negative ones count from the
// end. It returns the range as from and to, excluding to.
func indexRange(first, last string, length int) (from, to int) {
	low, high, n := number(first), number(last), int64(length)
	if low < 0 {
		low = max(low+n, 0)
	}
	if high < 0 {
		high += n
	}
	high = min(high+1, n)
	if low >= high {
		return 0, 0
	}
	return int(low), int(high)
}
