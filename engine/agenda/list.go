package agenda

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// The lists of events: the first three are sets of each partition; the last one is all records.
const (
	scheduledList = "scheduled"
	firingList    = "processing"
	deadList      = "dlq"
	closedList    = "closed"
)

// listsOf returns the lists that hold events with a status.
func listsOf(s schedule.Status) []string {
	switch s {
	case schedule.Scheduled:
		return []string{scheduledList}
	case schedule.Firing:
		return []string{firingList}
	case schedule.Dead:
		return []string{deadList}
	case schedule.Fired, schedule.Cancelled:
		return []string{closedList}
	default:
		return []string{scheduledList, firingList, deadList, closedList}
	}
}

const (
	maxExamined = 5000 // events that are read for one page if most of them do not match
	together    = 500  // events that are read in one step
)

// position is where a page begins.
type position struct {
	list string
	// In a set: after this time in milliseconds and this id. In all records: the cursor of
	// SCAN, and the last id of its reply that was listed.
	at    string
	after string
}

func (p position) String() string { return p.list + "/" + p.at + "/" + p.after }

// start returns the beginning of a list.
func start(list string, filter *schedule.Filter) position {
	p := position{list: list, at: "0"}
	if list == scheduledList && !filter.DueAfter.IsZero() {
		p.at = strconv.FormatInt(filter.DueAfter.UnixMilli(), 10) // no event is claimed before it is due
	}
	return p
}

// parsePosition reads a cursor.
func parsePosition(cursor string) (position, error) {
	parts := strings.Split(cursor, "/")
	if len(parts) != 3 || !slices.Contains(listsOf(""), parts[0]) || strings.Trim(parts[1], "0123456789") != "" || parts[1] == "" {
		return position{}, fmt.Errorf("%w: %.60q", schedule.ErrCursor, cursor)
	}
	return position{parts[0], parts[1], parts[2]}, nil
}

// List returns a page of events and the cursor of the next page. A page may be short or even
// empty although another follows. First come the SCHEDULED events, in the order in which
// they are claimed; then the FIRING and DEAD ones; then the others, in any order. Filters by
// time find a postponed SCHEDULED event only if its new time matches, too.
func (l Ledger) List(ctx context.Context, filter schedule.Filter) ([]schedule.Event, string, error) {
	lists := listsOf(filter.Status)
	at := start(lists[0], &filter)
	if filter.Cursor != "" {
		var err error
		if at, err = parsePosition(filter.Cursor); err != nil {
			return nil, "", err
		}
	}
	var out []schedule.Event
	for examined := 0; examined < maxExamined && len(out) < filter.Limit; {
		read := l.page
		if at.list == closedList {
			read = l.closed
		}
		left := filter.Limit - len(out)
		most := max(left, min(examined, together)) // the more events did not match, the more are read at once
		found, n, next, err := read(ctx, at, &filter, left, most)
		if err != nil {
			return nil, "", err
		}
		out, examined, at = append(out, found...), examined+n, next
		if at.at == "" { // the end of the list
			rest := lists[slices.Index(lists, at.list)+1:]
			if len(rest) == 0 {
				return out, "", nil
			}
			at = start(rest[0], &filter)
		}
	}
	return out, at.String(), nil
}

// entry is an id in a set of a partition.
type entry struct {
	id        string
	at        int64
	partition int
}

// page reads up to limit events of a set. It examines up to most ids, and returns how many it has examined.
func (l Ledger) page(ctx context.Context, from position, filter *schedule.Filter, limit, most int) (found []schedule.Event, examined int, next position, err error) {
	partitions, err := l.listed(ctx, filter)
	if err != nil {
		return nil, 0, next, err
	}
	until := "+inf"
	if from.list == scheduledList && !filter.DueBefore.IsZero() {
		until = strconv.FormatInt(filter.DueBefore.Add(time.Millisecond-1).UnixMilli(), 10) // rounded up: it is exclusive
	}
	calls := make([]wire.Call, len(partitions))
	for i, p := range partitions {
		calls[i] = wire.Call{Keys: []string{l.keys.prefix(p)}, Args: []any{from.list, from.at, packed(from.after), until, most + 1}}
	}
	replies, _ := l.rdb.RunEach(ctx, pageScript(), calls)
	var entries []entry
	for i, r := range replies {
		reply, err := r.Slice()
		if err != nil {
			return nil, 0, next, store.Failed("list events", err)
		}
		for list := wire.List(reply); len(list) > 1; list = list[2:] {
			entries = append(entries, entry{unpacked(list.Text(0)), number(list.Text(1)), partitions[i]})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.id, b.id)) })
	keys := make([]string, min(len(entries), most))
	for i, e := range entries[:len(keys)] {
		keys[i] = eventKey(l.keys.prefix(e.partition), e.id)
	}
	found, examined, err = l.matching(ctx, keys, from.list, filter, limit)
	next = position{list: from.list}
	if err == nil && examined < len(entries) {
		last := entries[examined-1]
		next.at, next.after = strconv.FormatInt(last.at, 10), last.id
	}
	return found, examined, next, err
}

// listed returns the partitions that a filter selects.
func (l Ledger) listed(ctx context.Context, filter *schedule.Filter) ([]int, error) {
	known, err := l.partitioning(ctx)
	if err != nil || filter.Partition == nil {
		return known.all(), err
	}
	return []int{*filter.Partition}, nil
}

// matching reads up to limit records of a list that match a filter. It also returns how many of the keys it
// has examined.
func (l Ledger) matching(ctx context.Context, keys []string, list string, filter *schedule.Filter, limit int) (out []schedule.Event, examined int, err error) {
	if len(keys) == 0 {
		return nil, 0, nil
	}
	records, err := l.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, 0, store.Failed("list events", err)
	}
	for i, record := range records {
		text, ok := record.(string)
		if !ok {
			continue
		}
		e, err := decode(idOf(keys[i]), text)
		if err != nil {
			return nil, 0, err
		}
		if listsOf(e.Status)[0] == list && filter.Matches(&e) {
			if out = append(out, e); len(out) == limit {
				return out, i + 1, nil
			}
		}
	}
	return out, len(keys), nil
}

// idOf returns the id in the key of a record.
func idOf(key string) string { return key[strings.LastIndexByte(key, ':')+1:] }

// closed reads up to limit FIRED or CANCELLED events from up to most records. It also returns how many keys it
// has scanned.
func (l Ledger) closed(ctx context.Context, from position, filter *schedule.Filter, limit, most int) (found []schedule.Event, scanned int, next position, err error) {
	pattern := l.keys.everyEvent()
	if filter.Partition != nil {
		pattern = eventKey(l.keys.prefix(*filter.Partition), "*")
	}
	cursor, err := strconv.ParseUint(from.at, 10, 64)
	if err != nil {
		return nil, 0, next, fmt.Errorf("%w: %w", schedule.ErrCursor, err)
	}
	node, _, err := wire.MasterOf(ctx, l.rdb, l.keys.partitions())
	if err != nil {
		return nil, 0, next, store.Failed("list events", err)
	}
	keys, cursor, err := node.Scan(ctx, cursor, pattern, together).Result()
	if err != nil {
		return nil, 0, next, store.Failed("list events", err)
	}
	next = position{list: closedList}
	if cursor != 0 {
		next.at = strconv.FormatUint(cursor, 10)
	}
	if from.after != "" { // if that event is gone, all keys are listed again
		keys = keys[slices.IndexFunc(keys, func(key string) bool { return idOf(key) == from.after })+1:]
	}
	selected, err := l.withStatus(ctx, keys, filter.Status)
	if err != nil {
		return nil, 0, next, err
	}
	found, examined, err := l.matching(ctx, selected[:min(most, len(selected))], closedList, filter, limit)
	if err == nil && examined < len(selected) {
		next.at, next.after = from.at, idOf(selected[examined-1])
	}
	return found, len(keys), next, err
}

// withStatus returns the keys of the records with a status, or of all closed ones if it is "",
// without reading their payloads.
func (l Ledger) withStatus(ctx context.Context, keys []string, status schedule.Status) ([]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	const begin = int64(len(`{"status":"CANCELLED"`)) // the longest one
	pipe := l.rdb.Pipeline()
	heads := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		heads[i] = pipe.GetRange(ctx, key, 0, begin)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, store.Failed("list events", err)
	}
	var out []string
	for i, key := range keys {
		is := schedule.Scheduled
		if text, ok := strings.CutPrefix(heads[i].Val(), `{"status":"`); ok {
			text, _, _ = strings.Cut(text, `"`)
			is = schedule.Status(text)
		}
		if is == status || status == "" && listsOf(is)[0] == closedList {
			out = append(out, key)
		}
	}
	return out, nil
}
