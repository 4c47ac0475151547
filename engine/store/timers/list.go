package timers

import (
	"cmp"
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

// ErrAmbiguous is wrapped by errors about id prefixes that match several timers.
var ErrAmbiguous = errors.New("ambiguous")

// Pending is a timer that is set.
type Pending struct {
	Due

	ID    string // derived from score and member, so it changes when the timer is moved
	score float64

	// For a timer that is not set: the stream and the entry of the event that requests it.
	Stream, Entry string
}

// Moment returns when the timer is due according to its own data.
func (p Pending) Moment() time.Time { return p.Timer.Due() }

// hashDigits is the number of digits after the dash of an id: enough for a million timers in one
// microsecond.
const hashDigits = 10

// pendingOf names a timer by its score's microsecond and a hash of its member.
func pendingOf(entry redis.Z, now time.Time) Pending {
	p := Pending{Due: DueOf(entry, now), score: entry.Score}
	sum := sha256.Sum256([]byte(p.Member))
	p.ID = strconv.FormatInt(microsecond(entry.Score), 36) + "-" + hex.EncodeToString(sum[:])[:hashDigits]
	return p
}

// ID returns the id and the score that a timer has when a service sets it.
func ID(t event.Timer) (id string, at float64) {
	at = score(t.Due())
	return pendingOf(redis.Z{Score: at, Member: event.TimerText(&t)}, time.Time{}).ID, at
}

// microsecond returns the microsecond of a score. It never decreases as scores grow.
func microsecond(score float64) int64 {
	const end = 4e18 // long after the last time that RFC 3339 can express
	return int64(math.Floor(max(-end, min(end, score*1e6))))
}

// scoresOf returns bounds of the scores that belong to a microsecond.
func scoresOf(micro int64) (low, high float64) {
	seconds := float64(micro) / 1e6
	slack := math.Abs(seconds)*1e-15 + 2e-6
	return seconds - slack, seconds + slack
}

// Filter selects timers; an empty field selects all.
type Filter struct {
	Tenant, Workflow, Execution string // the workflow with or without its namespace
	Kind                        event.TimerKind
	Until                       time.Time // due then or before
}

// Matches reports whether a timer is selected, regardless of when it is due.
func (f Filter) Matches(p Pending) bool {
	return (f.Tenant == "" || f.Tenant == p.Tenant) &&
		(f.Workflow == "" || event.IsWorkflow(p.Workflow, f.Workflow)) &&
		(f.Execution == "" || f.Execution == p.Execution) &&
		(f.Kind == "" || f.Kind == p.Kind && p.Err == nil)
}

// rulesOut reports whether a timer's member certainly does not match. It is cheap; decoding a million
// timers as JSON takes seconds.
func (f Filter) rulesOut(member string) bool {
	return !strings.Contains(member, `\u`) && slices.ContainsFunc([]string{f.Tenant, f.Workflow, f.Execution}, func(part string) bool {
		return part != "" && !strings.Contains(member, part) && store.CheckExecution(part) == nil
	})
}

// List returns up to limit timers after the one with the id after ("" begins with the first), in the
// order in which they fire. next is the value of after for the next page, "" at the end. With the timers
// of all tenants of a cluster, it may return some and an error that says which are missing.
func (ts Timers) List(ctx context.Context, f Filter, after string, limit int) (found []Pending, next string, err error) {
	from, err := ts.cursorOf(ctx, f.Tenant, after)
	if err != nil {
		return nil, "", err
	}
	tenants, all := []string{f.Tenant}, f.Tenant == "" && ts.keys.Clustered()
	if all {
		tenants, err = store.Reachable(ctx, ts.store, "timers")
	}
	limit = min(max(limit, 1), math.MaxInt-1)
	for _, tenant := range tenants {
		f.Tenant = tenant
		page, otherErr := ts.Page(ctx, Query{Filter: f, After: from, Limit: limit + 1, MaxScanned: math.MaxInt})
		switch {
		case otherErr == nil:
		case all:
			err = cmp.Or(err, fmt.Errorf("the timers of tenant %s are missing: %w", tenant, otherErr))
		default:
			return nil, "", otherErr
		}
		found = append(found, page.Timers...)
	}
	slices.SortFunc(found, compareDue)
	if len(found) <= limit {
		return found, "", err
	}
	return found[:limit], found[limit-1].ID, err
}

// cursorOf returns the cursor of the timer with an id; "" without an id. If the timer is gone, the cursor
// precedes all timers of its microsecond: they are listed again.
func (ts Timers) cursorOf(ctx context.Context, tenant, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	micro, err := parseTimerID(id)
	if err != nil {
		return "", err
	}
	p, err := ts.Find(ctx, tenant, id)
	if whole := strings.LastIndex(id, "-") == len(id)-hashDigits-1; errors.Is(err, store.ErrNotFound) && !whole {
		return "", fmt.Errorf("%w: cursor %q, want the id of a timer from the list of timers", store.ErrName, id)
	}
	if errors.Is(err, store.ErrNotFound) { // it has fired since
		low, _ := scoresOf(micro)
		return formatCursor(low, ""), nil
	}
	return p.Cursor(), err
}

// checkIndex returns an error if it is unknown which set of timers to read.
func (ts Timers) checkIndex(tenant string) error {
	if tenant == "" && !ts.keys.Clustered() {
		return nil
	}
	return store.CheckTenant(tenant)
}

// maxAtOnce is the maximum number of timers per read.
const maxAtOnce = 1000

// nextTimers is the number of timers of a set among which Postponed looks.
const nextTimers = 10_000

// Postponed returns the events of an execution that are delivered again later, the next one first. It
// looks at the next timers only: a delivery is postponed by minutes at most.
func (ts Timers) Postponed(ctx context.Context, tenant, execution string, now time.Time) ([]Pending, error) {
	next, err := ts.rdb.ZRangeWithScores(ctx, ts.keys.Timers(tenant), 0, nextTimers-1).Result()
	if err != nil {
		return nil, store.Failed("read the timers", err)
	}
	var page Page
	page.take(Query{Filter: Filter{Tenant: tenant, Execution: execution, Kind: event.DeliveryTimer}, Limit: nextTimers}, next, now)
	return page.Timers, nil
}

// parseTimerID returns the microsecond in an id.
func parseTimerID(id string) (micro int64, err error) {
	text, hash, ok := strings.Cut(strings.ToLower(id), "-")
	if negative, below := strings.CutPrefix(id, "-"); below { // before 1970
		text, hash, ok = strings.Cut(strings.ToLower(negative), "-")
		text = "-" + text
	}
	micro, otherErr := strconv.ParseInt(text, 36, 64)
	if ok && hash == "" || otherErr != nil {
		return 0, fmt.Errorf("%w: timer %q, want an id from the list of timers", store.ErrName, id)
	}
	return micro, nil
}

// Find returns the timer whose id begins with id: ErrNotFound if there is none, ErrAmbiguous if there
// are several. On a cluster it first looks at the timers of tenant, if that is not "", and then at
// those of the other registered tenants.
func (ts Timers) Find(ctx context.Context, tenant, id string) (Pending, error) {
	var none Pending
	micro, err := parseTimerID(id)
	if err != nil {
		return none, err
	}
	found, err := ts.timersOfAny(ctx, tenant, micro, strings.ToLower(id))
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, fmt.Errorf("timer %s: %w: it may have fired, or been cancelled or moved", id, store.ErrNotFound)
	case len(found) > 1:
		return none, fmt.Errorf("timer %q is %w: %s and %s begin like that", id, ErrAmbiguous, found[0].ID, found[1].ID)
	default:
		return found[0], nil
	}
}

// timersOfAny is like timersOf, and on a cluster continues with other tenants.
func (ts Timers) timersOfAny(ctx context.Context, tenant string, micro int64, prefix string) (found []Pending, err error) {
	if tenant != "" || !ts.keys.Clustered() {
		if err := ts.checkIndex(tenant); err != nil {
			return nil, err
		}
		found, err = ts.timersOf(ctx, tenant, micro, prefix)
		if err != nil || len(found) > 0 || !ts.keys.Clustered() {
			return found, err
		}
	}
	tenants, err := ts.store.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	for _, other := range tenants {
		if other == tenant {
			continue
		}
		some, err := ts.timersOf(ctx, other, micro, prefix)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// timersOf returns the timers of a microsecond whose ids begin with prefix.
func (ts Timers) timersOf(ctx context.Context, tenant string, micro int64, prefix string) (found []Pending, err error) {
	now, err := ts.store.NowOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	entries, err := ts.entriesOf(ctx, tenant, micro)
	for _, entry := range entries {
		if p := pendingOf(entry, now); strings.HasPrefix(p.ID, prefix) {
			found = append(found, p)
		}
	}
	return found, err
}

// entriesOf returns the timers of a microsecond, and possibly some of the ones next to it.
func (ts Timers) entriesOf(ctx context.Context, tenant string, micro int64) (all []redis.Z, err error) {
	low, high := scoresOf(micro)
	by := &redis.ZRangeBy{Min: strconv.FormatFloat(low, 'g', -1, 64), Max: strconv.FormatFloat(high, 'g', -1, 64), Count: maxAtOnce}
	for ; ; by.Offset += maxAtOnce {
		entries, err := ts.rdb.ZRangeByScoreWithScores(ctx, ts.keys.Timers(tenant), by).Result()
		all = append(all, entries...)
		if err != nil || len(entries) < maxAtOnce {
			return all, store.Failed("look for a timer", err)
		}
	}
}

// Query selects the timers of a page.
type Query struct {
	Filter

	After      string // cursor to continue after; "" begins at the first timer, or with Back at the last
	Limit      int
	Back       bool // read backwards: the timers just before the cursor
	MaxScanned int  // maximum number of timers to read

	Match func(Pending) bool // nil selects all timers
}

// Page is a page of a list of timers.
type Page struct {
	Timers  []Pending
	Next    string // cursor of the next page; "" at the end
	Scanned int
}

// Cursor returns the position of a timer in the sorted set.
func (p Pending) Cursor() string { return formatCursor(p.score, p.Member) }

func formatCursor(score float64, member string) string {
	return strconv.FormatFloat(score, 'g', -1, 64) + " " + member
}

// Page reads timers in the order in which they fire. Its cost does not depend on the number of
// timers. A page may have fewer timers than the limit although more follow, since q.MaxScanned
// bounds how many are read.
func (ts Timers) Page(ctx context.Context, q Query) (page Page, err error) {
	if err := ts.checkIndex(q.Tenant); err != nil {
		return page, err
	}
	now, err := ts.store.NowOf(ctx, q.Tenant)
	if err != nil {
		return page, err
	}
	for size := min(q.Limit, maxAtOnce-1) + 1; ; size = maxAtOnce {
		entries, err := ts.timersBehind(ctx, q, size)
		if err != nil {
			return page, err
		}
		done := page.take(q, entries, now)
		if !done && len(entries) < size {
			page.Next = ""
		}
		if done || page.Next == "" || page.Scanned >= q.MaxScanned {
			if q.Back {
				slices.Reverse(page.Timers)
			}
			return page, nil
		}
		q.After = page.Next
	}
}

// take adds the timers that match, and reports whether the page is full or nothing follows that is due in
// time.
func (page *Page) take(q Query, entries []redis.Z, now time.Time) (done bool) {
	for _, entry := range entries {
		late := !q.Until.IsZero() && entry.Score > score(q.Until)
		if late && !q.Back {
			page.Next = ""
			return true
		}
		if len(page.Timers) == q.Limit {
			return true
		}
		text, _ := entry.Member.(string) // go-redis always reads a string
		page.Scanned++
		page.Next = formatCursor(entry.Score, text)
		if late || q.rulesOut(text) {
			continue
		}
		if p := pendingOf(entry, now); q.Matches(p) && (q.Match == nil || q.Match(p)) {
			page.Timers = append(page.Timers, p)
		}
	}
	return false
}

func (ts Timers) timersBehind(ctx context.Context, q Query, count int) ([]redis.Z, error) {
	key := ts.keys.Timers(q.Tenant)
	if q.After == "" {
		read := ts.rdb.ZRangeWithScores
		if q.Back {
			read = ts.rdb.ZRevRangeWithScores
		}
		entries, err := read(ctx, key, 0, int64(count)-1).Result()
		return entries, store.Failed("list the timers", err)
	}
	score, member, _ := strings.Cut(q.After, " ")
	way := "on"
	if q.Back {
		way = "back"
	}
	reply, err := timersFromScript().Run(ctx, ts.rdb, []string{key}, score, member, count, way).Slice()
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
