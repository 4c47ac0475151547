package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// The indexes of executions: one for open ones, and one for each final status.
const (
	openIndex      = "open"
	completedIndex = "completed"
	faultedIndex   = "faulted"
	cancelledIndex = "cancelled"
)

// indexOf returns the index of the executions with a status.
func indexOf(status string) string {
	switch status {
	case completedIndex, faultedIndex, cancelledIndex:
		return status
	default:
		return openIndex
	}
}

// ExecutionQuery selects executions to list. Empty fields select all.
type ExecutionQuery struct {
	Statuses      []string
	Workflow      string // "namespace.name"
	CreatedAfter  time.Time
	CreatedBefore time.Time
	After         string // continue after this cursor
	Limit         int
	Back          bool // the executions just before the cursor, or the last ones without a cursor

	// PassID and Pass select executions by their id or their outline. Nil selects all.
	PassID     func(id string) bool
	Pass       func(Execution) bool
	MaxScanned int // maximum number of executions that one page examines; 0 is the default

	// Damaged, if set, receives an error for each execution whose hash cannot be read, and the page
	// lists the others. Without it, such an execution is an error of the page.
	Damaged func(id string, damage error)
}

// passes reports whether the query selects an execution.
func (q ExecutionQuery) passes(x Execution) bool {
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, x.Status)) &&
		(q.Workflow == "" || q.Workflow == x.Workflow) &&
		(q.CreatedAfter.IsZero() || x.CreatedAt.After(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || x.CreatedAt.Before(q.CreatedBefore)) &&
		(q.Pass == nil || q.Pass(x))
}

// indexes returns the indexes that can contain selected executions.
func (q ExecutionQuery) indexes() []string {
	if len(q.Statuses) == 0 {
		return []string{openIndex, completedIndex, faultedIndex, cancelledIndex}
	}
	var out []string
	for _, status := range q.Statuses {
		if name := indexOf(status); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// executionsAtOnce is the number of executions read in one round trip.
const executionsAtOnce = 1000

// maxScanned is the maximum number of executions that one page examines.
const maxScanned = 20 * executionsAtOnce

// Executions returns up to q.Limit executions, the newest first, and those of one millisecond by
// descending id. It leaves out their output, error and state. It may return fewer, since a page
// examines a bounded number: next is the cursor to continue after, "" if there are no more.
func (s *Store) Executions(ctx context.Context, tenant string, q ExecutionQuery) (found []Execution, next string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, "", err
	}
	m, err := s.merge(tenant, q)
	if err != nil {
		return nil, "", err
	}
	p := &page{query: q}
	// Read one more execution than needed, to see whether there are more.
	for looked, size := 0, min(q.Limit, executionsAtOnce-1)+1; looked < cmp.Or(q.MaxScanned, maxScanned); size = executionsAtOnce {
		entries, err := m.take(ctx, size)
		if err != nil || len(entries) == 0 {
			return p.ordered(), "", err
		}
		looked += len(entries)
		if q.PassID != nil {
			entries = slices.DeleteFunc(entries, func(e indexed) bool { return !q.PassID(e.id) })
		}
		executions, err := s.outlines(ctx, tenant, ids(entries), q.Damaged)
		if err != nil || p.fill(entries, executions) {
			return p.ordered(), p.last, err
		}
	}
	return p.ordered(), m.last.cursor(), nil
}

// page is the part of a list that has been read.
type page struct {
	query ExecutionQuery
	found []Execution
	last  string // cursor of its last execution
}

// ordered returns the executions of the page in list order.
func (p *page) ordered() []Execution {
	if p.query.Back {
		slices.Reverse(p.found)
	}
	return p.found
}

// fill adds the selected executions, and reports whether there are more than fit.
func (p *page) fill(entries []indexed, executions []Execution) (full bool) {
	for i, x := range executions {
		// An execution without a status was deleted, or is damaged.
		if x.Status == "" || !p.query.passes(x) {
			continue
		}
		if len(p.found) == p.query.Limit {
			return true
		}
		p.found = append(p.found, x)
		p.last = entries[i].cursor()
	}
	return false
}

// Outlines reads executions without their output, error and state. An execution that does not exist
// has only its id.
func (s *Store) Outlines(ctx context.Context, tenant string, ids ...string) ([]Execution, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	return s.outlines(ctx, tenant, ids, nil)
}

// outlines reads executions as Outlines does. If damaged is set, it receives the errors of damaged
// executions; the result has only their ids.
func (s *Store) outlines(ctx context.Context, tenant string, ids []string, damaged func(string, error)) ([]Execution, error) {
	names := []string{"status", "workflow", "definition", "version", "parent", "parent_task", "created", "ended", "labels"}
	pipe := s.rdb.Pipeline()
	replies := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		replies[i] = pipe.HMGet(ctx, s.keys.Execution(tenant, id), names...)
	}
	if len(ids) > 0 {
		if err := firstTemporary(pipe.Exec(ctx)); err != nil {
			return nil, Failed("read executions", err)
		}
	}
	out := make([]Execution, len(ids))
	for i, id := range ids {
		values, fields := wire.List(replies[i].Val()), map[string]string{}
		for n, name := range names {
			fields[name] = values.Text(n)
		}
		var err error
		if err = replies[i].Err(); err == nil {
			out[i], err = s.executionOf(tenant, id, fields)
		} else {
			err = Failed("read execution "+id, err)
		}
		switch {
		case err != nil && damaged == nil:
			return nil, err
		case err != nil:
			out[i] = Execution{Tenant: tenant, ID: id}
			damaged(id, err)
		}
	}
	return out, nil
}

// Counts are the numbers of executions.
type Counts struct{ Open, Completed, Faulted, Cancelled int64 }

// Counts counts the executions of a tenant.
func (s *Store) Counts(ctx context.Context, tenant string) (c Counts, err error) {
	if err := CheckTenant(tenant); err != nil {
		return c, err
	}
	pipe := s.rdb.Pipeline()
	count := func(index string) *redis.IntCmd { return pipe.ZCard(ctx, s.keys.Executions(tenant, index)) }
	open, completed, faulted, cancelled := count(openIndex), count(completedIndex), count(faultedIndex), count(cancelledIndex)
	if _, err := pipe.Exec(ctx); err != nil {
		return c, Failed("count executions", err)
	}
	return Counts{Open: open.Val(), Completed: completed.Val(), Faulted: faulted.Val(), Cancelled: cancelled.Val()}, nil
}

// indexed is an execution as stored in an index.
type indexed struct {
	at int64 // Unix milliseconds
	id string
}

func ids(entries []indexed) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.id
	}
	return out
}

// cursor is the position of an execution in the list of all.
func (i indexed) cursor() string { return strconv.FormatInt(i.at, 10) + "-" + i.id }

// Cursor returns the position of an execution in the list of all, for ExecutionQuery.After.
func (e Execution) Cursor() string { return indexed{e.CreatedAt.UnixMilli(), e.ID}.cursor() }

func parseCursor(text string) (indexed, error) {
	ms, id, ok := strings.Cut(text, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil {
		return indexed{}, fmt.Errorf("%w: cursor %q, want one from the list of executions", ErrName, text)
	}
	return indexed{at, id}, nil
}

// compare orders executions by their creation, and those of one millisecond by their id.
func (i indexed) compare(other indexed) int {
	return cmp.Or(cmp.Compare(i.at, other.at), cmp.Compare(i.id, other.id))
}

// mergedIndexes reads several indexes as one list.
type mergedIndexes struct {
	store   *Store
	indexes []*index
	last    indexed // the last one taken
	from    string  // the lowest score
	back    bool    // from the end of the list to its beginning
}

// index is the part of an index that has been read.
type index struct {
	key    string
	buffer []indexed
	end    indexed // the last one read
	count  int64   // to read next
	done   bool
}

// merge starts reading the indexes that a query needs.
func (s *Store) merge(tenant string, q ExecutionQuery) (*mergedIndexes, error) {
	m := &mergedIndexes{store: s, last: indexed{math.MaxInt64, ""}, from: "-inf", back: q.Back}
	if !q.CreatedAfter.IsZero() {
		m.from = strconv.FormatInt(q.CreatedAfter.UnixMilli(), 10)
	}
	if !q.CreatedBefore.IsZero() {
		m.last = indexed{q.CreatedBefore.UnixMilli() + 1, ""}
	}
	if q.Back {
		m.last = indexed{math.MinInt64, ""}
	}
	if q.After != "" {
		after, err := parseCursor(q.After)
		if err != nil {
			return nil, err
		}
		if m.follows(after, m.last) {
			m.last = after
		}
	}
	for _, name := range q.indexes() {
		m.indexes = append(m.indexes, &index{key: s.keys.Executions(tenant, name), end: m.last})
	}
	return m, nil
}

// take returns the next n executions; fewer only at the end.
func (m *mergedIndexes) take(ctx context.Context, n int) ([]indexed, error) {
	var out []indexed
	for len(out) < n {
		if err := m.fill(ctx, n); err != nil {
			return nil, err
		}
		var first *index
		for _, ix := range m.indexes {
			if len(ix.buffer) > 0 && (first == nil || m.follows(first.buffer[0], ix.buffer[0])) {
				first = ix
			}
		}
		if first == nil {
			break
		}
		next := first.buffer[0]
		first.buffer = first.buffer[1:]
		// An execution that moves between indexes during the read may appear in both.
		if m.follows(next, m.last) {
			out, m.last = append(out, next), next
		}
	}
	return out, nil
}

// fill reads more of each index that has no entries left to compare.
func (m *mergedIndexes) fill(ctx context.Context, n int) error {
	for {
		pipe := m.store.rdb.Pipeline()
		replies := map[*index]*redis.ZSliceCmd{}
		for _, ix := range m.indexes {
			if len(ix.buffer) > 0 || ix.done {
				continue
			}
			ix.count = max(ix.count, int64(n))
			replies[ix] = m.read(ctx, pipe, ix)
		}
		if len(replies) == 0 {
			return nil
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return Failed("list executions", err)
		}
		for ix, reply := range replies {
			ix.take(reply.Val(), m.follows)
		}
	}
}

// read reads more of one index.
func (m *mergedIndexes) read(ctx context.Context, pipe redis.Pipeliner, ix *index) *redis.ZSliceCmd {
	by := &redis.ZRangeBy{Max: strconv.FormatInt(ix.end.at, 10), Min: m.from, Count: ix.count}
	if m.back {
		by.Min, by.Max = by.Max, "+inf"
		return pipe.ZRangeByScoreWithScores(ctx, ix.key, by)
	}
	return pipe.ZRevRangeByScoreWithScores(ctx, ix.key, by)
}

// follows reports whether e comes after other in the direction of reading.
func (m *mergedIndexes) follows(e, other indexed) bool {
	if m.back {
		e, other = other, e
	}
	return e.compare(other) < 0
}

// take keeps the executions after the last one. If there are none because too many were created in
// the same millisecond, the next read is larger.
func (ix *index) take(entries []redis.Z, follows func(e, other indexed) bool) {
	for _, entry := range entries {
		id, _ := entry.Member.(string) // go-redis always reads a string
		if e := (indexed{int64(entry.Score), id}); follows(e, ix.end) {
			ix.buffer = append(ix.buffer, e)
		}
	}
	ix.done = int64(len(entries)) < ix.count
	if len(ix.buffer) == 0 {
		ix.count *= 2
		return
	}
	ix.end, ix.count = ix.buffer[len(ix.buffer)-1], 0
}
