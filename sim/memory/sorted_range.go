package memory

import (
	"math"
	"slices"
	"sort"
	"strings"

	"flunq.io/flunq/sim/resp"
)

const noBound = "ERR min or max is not a float"

// bound is one end of a range of scores.
type bound struct {
	score float64
	open  bool // excludes the score itself
}

func boundOf(text string) (bound, bool) {
	text, open := strings.CutPrefix(text, "(")
	score, ok := scored(text)
	return bound{score, open}, ok
}

// between returns the range of members between two bounds.
func (z *sorted) between(low, high string) (from, to int, ok bool) {
	least, okLow := boundOf(low)
	most, okHigh := boundOf(high)
	if !okLow || !okHigh {
		return 0, 0, false
	}
	from = sort.Search(len(z.ranked), func(i int) bool {
		return z.ranked[i].score > least.score || z.ranked[i].score == least.score && !least.open
	})
	to = sort.Search(len(z.ranked), func(i int) bool {
		return z.ranked[i].score > most.score || z.ranked[i].score == most.score && most.open
	})
	return from, max(from, to), true
}

// ranging holds the options of ZRANGE and the other commands that return ranges.
type ranging struct {
	byScore, reverse, withScores, limited bool

	offset, count int64
}

func rangingOf(args []string) (o ranging, bad string) {
	name := strings.ToLower(args[0])
	o = ranging{byScore: strings.HasSuffix(name, "byscore"), reverse: strings.HasPrefix(name, "zrev"), count: -1}
	for rest := args[4:]; len(rest) > 0; rest = rest[1:] {
		switch word := strings.ToLower(rest[0]); {
		case word == "withscores":
			o.withScores = true
		case word == "limit" && o.byScore && len(rest) > 2:
			var okOffset, okCount bool
			o.offset, okOffset = integer(rest[1])
			o.count, okCount = integer(rest[2])
			if !okOffset || !okCount {
				return o, noInteger
			}
			o.limited, rest = true, rest[2:]
		default:
			return o, syntax
		}
	}
	return o, ""
}

func zrange(_ *Database, z *sorted, args []string) resp.Reply {
	o, bad := rangingOf(args)
	if bad != "" {
		return resp.Fail(bad)
	}
	low, high := args[2], args[3]
	if !o.byScore {
		from, to, ok := span(low, high, len(z.ranked))
		if !ok {
			return resp.Fail(noInteger)
		}
		if o.reverse {
			from, to = len(z.ranked)-to, len(z.ranked)-from
		}
		return o.reply(z.ranked[from:to])
	}
	if o.reverse {
		low, high = high, low
	}
	from, to, ok := z.between(low, high)
	if !ok {
		return resp.Fail(noBound)
	}
	return o.reply(z.ranked[from:to])
}

// reply returns the requested part of a range.
func (rg ranging) reply(found []ranked) resp.Reply {
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
			out = append(out, written(r.score))
		}
	}
	return resp.Strings(slices.Clip(out))
}

// span parses the first and the last index of a range, where negative ones count from the
// end. It returns the range as from and to, excluding to.
func span(first, last string, length int) (from, to int, ok bool) {
	low, okLow := integer(first)
	high, okHigh := integer(last)
	if !okLow || !okHigh {
		return 0, 0, false
	}
	n := int64(length)
	if low < 0 {
		low = max(low+n, 0)
	}
	if high < 0 {
		high += n
	}
	high = min(high+1, n)
	if low >= high {
		return 0, 0, true
	}
	return int(low), int(high), true
}
