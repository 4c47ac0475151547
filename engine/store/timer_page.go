package store

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// TimerQuery says which timers a page shows.
type TimerQuery struct {
	Tenant string
	After  string // go on behind this cursor
	Limit  int
	Back   bool // those before the cursor that are next to it; the last of all without one
	Looks  int  // how many timers are looked at, at most

	// Hopeless reports of a timer's text, as it stands, that it is not meant for
	// sure; Pass whether the timer is meant. Nil are those that let all pass.
	Hopeless func(text string) bool
	Pass     func(Pending) bool
}

// TimerPage is a part of a list of timers.
type TimerPage struct {
	Timers []Pending
	Next   string // cursor to go on behind; "" at the end
	Looked int
}

// Cursor is the place of a timer among the others.
func (p Pending) Cursor() string { return cursorOf(p.score, p.Member) }

func cursorOf(score float64, member string) string {
	return strconv.FormatFloat(score, 'g', -1, 64) + " " + member
}

// TimerPage reads timers in the order in which they fire; what one costs does not
// depend on how many there are. There may be fewer than the limit although more
// follow, since a bounded number is looked at.
func (s *Store) TimerPage(ctx context.Context, q TimerQuery) (page TimerPage, err error) {
	if err := CheckTenant(q.Tenant); err != nil {
		return page, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return page, err
	}
	for size := min(q.Limit, mostAtOnce-1) + 1; ; size = mostAtOnce {
		entries, err := s.timersBehind(ctx, q, size)
		if err != nil {
			return page, err
		}
		full := page.take(q, entries, now)
		if !full && len(entries) < size {
			page.Next = ""
		}
		if full || page.Next == "" || page.Looked >= q.Looks {
			if q.Back {
				slices.Reverse(page.Timers)
			}
			return page, nil
		}
		q.After = page.Next
	}
}

// take adds those timers that are meant, and reports whether there is no room for more.
func (page *TimerPage) take(q TimerQuery, entries []redis.Z, now time.Time) (full bool) {
	f := TimerFilter{Tenant: q.Tenant}
	for _, entry := range entries {
		if len(page.Timers) == q.Limit {
			return true
		}
		text, _ := entry.Member.(string) // go-redis reads nothing else
		page.Looked++
		page.Next = cursorOf(entry.Score, text)
		if f.hopeless(text) || q.Hopeless != nil && q.Hopeless(text) {
			continue
		}
		if p := pendingOf(entry, now); f.Passes(p) && (q.Pass == nil || q.Pass(p)) {
			page.Timers = append(page.Timers, p)
		}
	}
	return false
}

func (s *Store) timersBehind(ctx context.Context, q TimerQuery, count int) ([]redis.Z, error) {
	key := s.keys.Timers(q.Tenant)
	if q.After == "" {
		read := s.rdb.ZRangeWithScores
		if q.Back {
			read = s.rdb.ZRevRangeWithScores
		}
		entries, err := read(ctx, key, 0, int64(count)-1).Result()
		return entries, failed("list the timers", err)
	}
	score, member, _ := strings.Cut(q.After, " ")
	way := "on"
	if q.Back {
		way = "back"
	}
	reply, err := timersFromScript.Run(ctx, s.rdb, []string{key}, score, member, count, way).Slice()
	if err != nil {
		return nil, failed("list the timers", err)
	}
	entries := make([]redis.Z, 0, len(reply)/2)
	for l := list(reply); len(l) > 1; l = l[2:] {
		at, err := strconv.ParseFloat(l.text(1), 64)
		if err != nil {
			at = math.Inf(1)
		}
		entries = append(entries, redis.Z{Score: at, Member: l.text(0)})
	}
	if q.Back {
		slices.Reverse(entries)
	}
	return entries, nil
}
