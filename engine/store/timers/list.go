package timers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// ErrAmbiguous is wrapped by errors about ids that mean more than one thing.
var ErrAmbiguous = errors.New("ambiguous")

// Pending is a timer that is set.
type Pending struct {
	Due

	ID    string // says where it stands, and changes when it is moved
	score float64

	// Of one that is not set: where the event is that asks for it.
	Stream, Entry string
}

// Moment is when it fires, as far as it says so itself.
func (p Pending) Moment() time.Time { return p.Timer.Due() }

// hashDigits are those of an id behind its dash: enough for a million timers of
// one microsecond.
const hashDigits = 10

// pendingOf names a timer by its score's microsecond and a hash of its member.
func pendingOf(entry redis.Z, now time.Time) Pending {
	p := Pending{Due: DueOf(entry, now), score: entry.Score}
	sum := sha256.Sum256([]byte(p.Member))
	p.ID = strconv.FormatInt(microsecond(entry.Score), 36) + "-" + hex.EncodeToString(sum[:])[:hashDigits]
	return p
}

// ID is the id and the score of a timer as the services set it.
func ID(t event.Timer) (id string, at float64) {
	at = score(t.Due())
	return pendingOf(redis.Z{Score: at, Member: event.TimerText(&t)}, time.Time{}).ID, at
}

// microsecond is the microsecond of a score; it never decreases as scores grow.
func microsecond(score float64) int64 {
	const end = 4e18 // long after the last moment that RFC 3339 can write
	return int64(math.Floor(max(-end, min(end, score*1e6))))
}

// scoresOf are scores between which all of a microsecond are.
func scoresOf(micro int64) (low, high float64) {
	seconds := float64(micro) / 1e6
	slack := math.Abs(seconds)*1e-15 + 2e-6
	return seconds - slack, seconds + slack
}

// Filter selects timers; an empty field selects all.
type Filter struct {
	Tenant, Workflow, Execution string
	Kind                        event.TimerKind
	Until                       time.Time // due then or before
}

// Matches reports whether a timer is selected, whenever it is due.
func (f Filter) Matches(p Pending) bool {
	return (f.Tenant == "" || f.Tenant == p.Tenant) &&
		(f.Workflow == "" || f.Workflow == p.Workflow) &&
		(f.Execution == "" || f.Execution == p.Execution) &&
		(f.Kind == "" || f.Kind == p.Kind && p.Err == nil)
}

// rulesOut reports whether the text of a timer certainly does not pass: reading a million of them
// as JSON takes seconds.
func (f Filter) rulesOut(member string) bool {
	for _, part := range []string{f.Tenant, f.Workflow, f.Execution} {
		if part != "" && !strings.Contains(member, part) && !strings.Contains(member, `\u`) && store.CheckExecution(part) == nil {
			return true
		}
	}
	return false
}

// List returns up to limit timers behind the one of an id ("" for the first), in
// the order in which they fire; next is the id to go on behind, "" when there are
// no more. On a cluster the filter has to name a tenant.
func (s Timers) List(ctx context.Context, f Filter, after string, limit int) (found []Pending, next string, err error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, "", err
	}
	if err := s.checkTimerIndex(f.Tenant); err != nil {
		return nil, "", err
	}
	from, err := s.start(ctx, f.Tenant, after)
	if err != nil {
		return nil, "", err
	}
	limit = max(limit, 1)
	size := int64(min(limit, mostAtOnce-1)) + 1
	for until := f.until(); ; size = mostAtOnce {
		entries, err := s.timersFrom(ctx, f.Tenant, from, until, size)
		if err != nil || len(entries) == 0 {
			return found, "", err
		}
		found = f.pick(found, entries, from, now)
		if limit < len(found) {
			return found[:limit], found[limit-1].ID, nil
		}
		from.pass(entries)
	}
}

// checkTimerIndex returns an error if it is unknown which set of timers to read.
func (s Timers) checkTimerIndex(tenant string) error {
	if tenant == "" && !s.keys.Clustered() {
		return nil
	}
	return store.CheckTenant(tenant)
}

// until is the last score that is of interest.
func (f Filter) until() string {
	if f.Until.IsZero() {
		return "+inf"
	}
	return FormatScore(f.Until)
}

// mostAtOnce is how many timers are read at once.
const mostAtOnce = 1000

// pick adds those of a page that are meant and behind the place.
func (f Filter) pick(found []Pending, page []redis.Z, from *position, now time.Time) []Pending {
	for _, entry := range page {
		text, _ := entry.Member.(string) // go-redis reads nothing else
		if from.reached(entry.Score, text) || f.rulesOut(text) {
			continue
		}
		if p := pendingOf(entry, now); f.Matches(p) {
			found = append(found, p)
		}
	}
	return found
}

// position is how far a listing has come.
type position struct {
	score  float64 // timers of lower scores were listed …
	offset int64   // … and this many of this one,
	member string  // up to this member,
	micro  int64   // and those before this microsecond
}

// start is the place behind an id. If its timer is gone, the others of its
// microsecond come once more.
func (s Timers) start(ctx context.Context, tenant, after string) (*position, error) {
	if after == "" {
		return &position{score: math.Inf(-1), micro: math.MinInt64}, nil
	}
	micro, err := parseTimerID(after)
	if err != nil {
		return nil, err
	}
	p, err := s.Find(ctx, tenant, after)
	if errors.Is(err, store.ErrNotFound) {
		low, _ := scoresOf(micro)
		return &position{score: low, micro: micro}, nil
	}
	return &position{score: p.score, member: p.Member, micro: micro}, err
}

// reached reports whether an entry is at the place or before it.
func (p *position) reached(score float64, text string) bool {
	return microsecond(score) < p.micro || score == p.score && p.member != "" && text <= p.member
}

// pass moves the place behind a page.
func (p *position) pass(entries []redis.Z) {
	last := entries[len(entries)-1].Score
	if last != p.score {
		p.score, p.offset, p.member = last, 0, ""
	}
	for _, entry := range entries {
		if entry.Score == last {
			p.offset++
		}
	}
}

func (s Timers) timersFrom(ctx context.Context, tenant string, from *position, until string, count int64) ([]redis.Z, error) {
	by := &redis.ZRangeBy{Min: strconv.FormatFloat(from.score, 'g', -1, 64), Max: until, Offset: from.offset, Count: count}
	entries, err := s.rdb.ZRangeByScoreWithScores(ctx, s.keys.Timers(tenant), by).Result()
	return entries, store.Failed("list the timers", err)
}

// parseTimerID is the microsecond that an id says.
func parseTimerID(id string) (micro int64, err error) {
	text, hash, ok := strings.Cut(strings.ToLower(id), "-")
	if negative, below := strings.CutPrefix(id, "-"); below { // before 1970
		text, hash, ok = strings.Cut(strings.ToLower(negative), "-")
		text = "-" + text
	}
	micro, wrong := strconv.ParseInt(text, 36, 64)
	if ok && hash == "" || wrong != nil {
		return 0, fmt.Errorf("%w: timer %q, want an id as the list of timers has it", store.ErrName, id)
	}
	return micro, nil
}

// Find returns a timer by its id, of which the end may be missing: ErrNotFound
// if there is none, ErrAmbiguous if there are several. Tenant matters on a cluster only.
func (s Timers) Find(ctx context.Context, tenant, id string) (Pending, error) {
	var none Pending
	if err := s.checkTimerIndex(tenant); err != nil {
		return none, err
	}
	micro, err := parseTimerID(id)
	if err != nil {
		return none, err
	}
	found, err := s.timersOf(ctx, tenant, micro, strings.ToLower(id))
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, fmt.Errorf("timer %s: %w: it has fired, or was cancelled or moved", id, store.ErrNotFound)
	case len(found) > 1:
		return none, fmt.Errorf("timer %q is %w: %s and %s begin like that", id, ErrAmbiguous, found[0].ID, found[1].ID)
	default:
		return found[0], nil
	}
}

// timersOf are the timers of a microsecond whose ids begin with a text.
func (s Timers) timersOf(ctx context.Context, tenant string, micro int64, prefix string) (found []Pending, err error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	low, high := scoresOf(micro)
	from := &position{score: low, micro: micro}
	for until := strconv.FormatFloat(high, 'g', -1, 64); ; {
		entries, err := s.timersFrom(ctx, tenant, from, until, mostAtOnce)
		if err != nil || len(entries) == 0 {
			return found, err
		}
		for _, entry := range entries {
			if p := pendingOf(entry, now); strings.HasPrefix(p.ID, prefix) {
				found = append(found, p)
			}
		}
		from.pass(entries)
	}
}

// Query says which timers a page shows.
type Query struct {
	Tenant string
	After  string // go on behind this cursor
	Limit  int
	Back   bool // those before the cursor that are next to it; the last of all without one
	Looks  int  // how many timers are looked at, at most

	// RulesOut reports of a timer's text, as it stands, that it is not meant for
	// sure; Pass whether the timer is meant. Nil are those that let all pass.
	RulesOut func(text string) bool
	Match    func(Pending) bool
}

// Page is a page of a list of timers.
type Page struct {
	Timers []Pending
	Next   string // cursor to go on behind; "" at the end
	Looked int
}

// Cursor is the place of a timer among the others.
func (p Pending) Cursor() string { return cursorOf(p.score, p.Member) }

func cursorOf(score float64, member string) string {
	return strconv.FormatFloat(score, 'g', -1, 64) + " " + member
}

// Page reads timers in the order in which they fire; what one costs does not
// depend on how many there are. There may be fewer than the limit although more
// follow, since a bounded number is looked at.
func (s Timers) Page(ctx context.Context, q Query) (page Page, err error) {
	if err := store.CheckTenant(q.Tenant); err != nil {
		return page, err
	}
	now, err := s.store.Now(ctx)
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
func (page *Page) take(q Query, entries []redis.Z, now time.Time) (full bool) {
	f := Filter{Tenant: q.Tenant}
	for _, entry := range entries {
		if len(page.Timers) == q.Limit {
			return true
		}
		text, _ := entry.Member.(string) // go-redis reads nothing else
		page.Looked++
		page.Next = cursorOf(entry.Score, text)
		if f.rulesOut(text) || q.RulesOut != nil && q.RulesOut(text) {
			continue
		}
		if p := pendingOf(entry, now); f.Matches(p) && (q.Match == nil || q.Match(p)) {
			page.Timers = append(page.Timers, p)
		}
	}
	return false
}

func (s Timers) timersBehind(ctx context.Context, q Query, count int) ([]redis.Z, error) {
	key := s.keys.Timers(q.Tenant)
	if q.After == "" {
		read := s.rdb.ZRangeWithScores
		if q.Back {
			read = s.rdb.ZRevRangeWithScores
		}
		entries, err := read(ctx, key, 0, int64(count)-1).Result()
		return entries, store.Failed("list the timers", err)
	}
	score, member, _ := strings.Cut(q.After, " ")
	way := "on"
	if q.Back {
		way = "back"
	}
	reply, err := timersFromScript.Run(ctx, s.rdb, []string{key}, score, member, count, way).Slice()
	if err != nil {
		return nil, store.Failed("list the timers", err)
	}
	entries := make([]redis.Z, 0, len(reply)/2)
	for l := wire.List(reply); len(l) > 1; l = l[2:] {
		at, err := strconv.ParseFloat(l.Text(1), 64)
		if err != nil {
			at = math.Inf(1)
		}
		entries = append(entries, redis.Z{Score: at, Member: l.Text(0)})
	}
	if q.Back {
		slices.Reverse(entries)
	}
	return entries, nil
}
