package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// Keep is the retention of ended executions. The zero value keeps all.
type Keep struct {
	Age   time.Duration // time to keep them after their end; 0: no bound
	Count int64         // number to keep per tenant, the newest by creation; 0: no bound
	Least time.Duration // minimum time after their end, whatever Count says
}

// Bounded reports whether there is a bound.
func (k Keep) Bounded() bool { return k.Age > 0 || k.Count > 0 }

// Shortest returns the minimum time for which an ended execution is kept; 0 if all are kept
// forever.
func (k Keep) Shortest() time.Duration {
	switch {
	case k.Age > 0 && k.Count > 0:
		return min(k.Age, k.Least)
	case k.Count > 0:
		return k.Least
	default:
		return k.Age
	}
}

// expired reports whether to remove an execution that ended at a given time; beyond says that it
// exceeds Count.
func (k Keep) expired(ended, now time.Time, beyond bool) bool {
	past := now.Sub(ended)
	return k.Age > 0 && past >= k.Age || beyond && past >= k.Least
}

// ForgetProgress is the progress of Forget through the ended executions of a tenant: the number
// kept so far in each index. The zero value starts at the beginning.
type ForgetProgress [3]int64

// finishedIndexes are the indexes of a ForgetProgress, in its order.
func finishedIndexes() []string { return []string{completedIndex, faultedIndex, cancelledIndex} }

// maxForgotten is the number of executions that one call examines.
const maxForgotten = 100

// policyTTL is how long the stored retention is valid after a process has written it.
const policyTTL = 10 * time.Minute

// Forget removes ended executions of a tenant that are not to be kept, with their histories. It
// continues where an earlier call stopped, and examines a bounded number, the oldest first; done
// reports that there is nothing more to remove. It keeps executions that are retried in the
// meantime or whose parent is still open. Processes may call it concurrently.
func (s *Store) Forget(ctx context.Context, tenant string, keep Keep, from ForgetProgress) (gone int, next ForgetProgress, done bool, err error) {
	if err := CheckTenant(tenant); err != nil || !keep.Bounded() {
		return 0, from, true, err
	}
	page, err := s.finished(ctx, tenant, keep, from)
	if err != nil || len(page.found) == 0 {
		return 0, from, true, err
	}
	removed, err := s.forget(ctx, tenant, page.expired(keep))
	if err != nil {
		return 0, from, true, err
	}
	for _, f := range page.found {
		switch removed[f.id] {
		case 0:
			from[f.index]++
		case 1:
			gone++
		}
	}
	return gone, from, page.last, nil
}

// finished is one execution in an index of a ForgetProgress.
type finished struct {
	indexed

	index                          int
	beyond                         bool // it exceeds Keep.Count
	version, ended, parent, status string
}

// finishedPage holds the executions that one call examines.
type finishedPage struct {
	now   time.Time
	found []finished
	last  bool // nothing after them can be removed
}

// finished reads the next executions of a ForgetProgress that may have to be removed.
func (s *Store) finished(ctx context.Context, tenant string, keep Keep, from ForgetProgress) (finishedPage, error) {
	pipe := s.rdb.Pipeline()
	clock := pipe.Time(ctx)
	if from == (ForgetProgress{}) { // a full Redis rejects this write, but can still remove executions
		pipe.Set(ctx, s.keys.kept(tenant), keep.Age.String()+" "+strconv.FormatInt(keep.Count, 10), policyTTL)
	}
	var cards [3]*redis.IntCmd
	var lists [3]*redis.ZSliceCmd
	for i, name := range finishedIndexes() {
		key := s.keys.Executions(tenant, name)
		cards[i], lists[i] = pipe.ZCard(ctx, key), pipe.ZRangeWithScores(ctx, key, from[i], from[i]+maxForgotten-1)
	}
	if _, err := pipe.Exec(ctx); err != nil && !redis.IsOOMError(err) {
		return finishedPage{}, Failed("list finished executions", err)
	}
	page, total, before := finishedPage{now: clock.Val()}, int64(0), int64(0)
	for i, reply := range lists {
		total, before = total+cards[i].Val(), before+from[i]
		for _, entry := range reply.Val() {
			id, _ := entry.Member.(string) // go-redis always reads a string
			page.found = append(page.found, finished{indexed: indexed{int64(entry.Score), id}, index: i})
		}
	}
	slices.SortStableFunc(page.found, func(a, b finished) int { return a.compare(b.indexed) })
	page.cut(keep, total-before)
	return page, s.readForgetFields(ctx, tenant, page.found)
}

// cut drops executions that need not be removed yet: one created within Keep.Age cannot have ended
// before it.
func (p *finishedPage) cut(keep Keep, left int64) {
	p.last = int64(len(p.found)) == left && left <= maxForgotten
	p.found = p.found[:min(len(p.found), maxForgotten)]
	for i := range p.found {
		f := &p.found[i]
		f.beyond = keep.Count > 0 && left-int64(i) > keep.Count
		old := keep.Age > 0 && p.now.UnixMilli()-f.at >= keep.Age.Milliseconds()
		if !f.beyond && !old {
			p.found, p.last = p.found[:i], true
			return
		}
	}
}

// readForgetFields reads the fields that decide whether executions are removed.
func (s *Store) readForgetFields(ctx context.Context, tenant string, found []finished) error {
	if len(found) == 0 {
		return nil
	}
	pipe := s.rdb.Pipeline()
	replies := make([]*redis.SliceCmd, len(found))
	for i, f := range found {
		replies[i] = pipe.HMGet(ctx, s.keys.Execution(tenant, f.id), "version", "ended", "parent", "status")
	}
	if err := firstTemporary(pipe.Exec(ctx)); err != nil {
		return Failed("read finished executions", err)
	}
	for i := range found {
		fields := wire.List(replies[i].Val())
		if replies[i].Err() != nil || len(fields) == 0 {
			found[i].status = "unreadable"
			continue
		}
		found[i].version, found[i].ended, found[i].parent, found[i].status = fields.Text(0), fields.Text(1), fields.Text(2), fields.Text(3)
	}
	return nil
}

// expired returns the executions to remove.
func (p *finishedPage) expired(keep Keep) (out []finished) {
	for _, f := range p.found {
		ended := wire.Time(f.ended)
		switch {
		case f.status == "" && f.version == "": // its keys were deleted, but it is still in the index
		case indexOf(f.status) == openIndex, ended.IsZero(), !keep.expired(ended, p.now, f.beyond):
			continue
		}
		out = append(out, f)
	}
	return out
}

// Remove removes ended executions of a tenant with their histories, and reports for each whether it
// is gone. It keeps executions that are open or whose parent is open.
func (s *Store) Remove(ctx context.Context, tenant string, ids []string) ([]bool, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	out := make([]bool, 0, len(ids))
	for ids := range slices.Chunk(ids, maxForgotten) {
		found := make([]finished, len(ids))
		for i, id := range ids {
			found[i].id = id
		}
		if err := s.readForgetFields(ctx, tenant, found); err != nil {
			return out, err
		}
		for i := range found {
			found[i].index = slices.Index(finishedIndexes(), found[i].status)
		}
		ended := slices.DeleteFunc(slices.Clone(found), func(f finished) bool { return f.index < 0 })
		removed, err := s.forget(ctx, tenant, ended)
		if err != nil {
			return out, err
		}
		for _, id := range ids {
			out = append(out, removed[id] > 0)
		}
	}
	return out, nil
}

// forget removes executions that have not changed since they were read.
func (s *Store) forget(ctx context.Context, tenant string, doomed []finished) (map[string]int64, error) {
	if len(doomed) == 0 {
		return nil, nil
	}
	var keys []string
	for _, name := range finishedIndexes() {
		keys = append(keys, s.keys.Executions(tenant, name))
	}
	args := make([]any, 0, 5*len(doomed))
	for _, f := range doomed {
		keys = append(keys, s.keys.Execution(tenant, f.id), s.keys.History(tenant, f.id), s.keys.Execution(tenant, cmp.Or(f.parent, f.id)))
		args = append(args, f.id, f.index+1, f.version, f.ended, f.parent)
	}
	reply, err := forgetScript().Run(ctx, s.rdb, keys, args...).Slice()
	if err != nil {
		return nil, Failed("remove finished executions", err)
	}
	gone := make(map[string]int64, len(doomed))
	for i, f := range doomed {
		gone[f.id] = wire.List(reply).Number(i)
	}
	return gone, nil
}

// Kept returns the retention of a tenant's ended executions that a process has enforced within the
// last minutes, without Least, or the zero value.
func (s *Store) Kept(ctx context.Context, tenant string) (Keep, error) {
	if err := CheckTenant(tenant); err != nil {
		return Keep{}, err
	}
	text, err := s.rdb.Get(ctx, s.keys.kept(tenant)).Result()
	if errors.Is(err, redis.Nil) {
		return Keep{}, nil
	}
	if err != nil {
		return Keep{}, Failed("read what is kept", err)
	}
	age, count, _ := strings.Cut(text, " ")
	var keep Keep
	keep.Age, err = time.ParseDuration(age)
	if err == nil {
		keep.Count, err = strconv.ParseInt(count, 10, 64)
	}
	if err != nil {
		return Keep{}, fmt.Errorf("retention of tenant %s is %q, want a duration and a number", tenant, text)
	}
	return keep, nil
}

// weighed is the maximum number of executions to measure per index; entryOverhead is the approximate
// number of bytes of an index entry besides its member.
const (
	weighed       = 64
	entryOverhead = 90
)

// Weight estimates how many bytes of Redis' memory the ended executions of a tenant take with their
// histories: for each status, their number times the mean of some old and some new ones. It is 0 if
// there are none or Redis does not support MEMORY USAGE.
func (s *Store) Weight(ctx context.Context, tenant string) (int64, error) {
	if err := CheckTenant(tenant); err != nil {
		return 0, err
	}
	total := int64(0)
	for _, name := range finishedIndexes() {
		size, err := weigh(ctx, s, tenant, name)
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// weigh estimates the bytes of the executions in an index.
func weigh(ctx context.Context, s *Store, tenant, index string) (int64, error) {
	key, pipe := s.keys.Executions(tenant, index), s.rdb.Pipeline()
	count, oldest, newest := pipe.ZCard(ctx, key), pipe.ZRange(ctx, key, 0, weighed/2-1), pipe.ZRange(ctx, key, -weighed/2, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, Failed("read finished executions", err)
	}
	ids := compacted(slices.Concat(oldest.Val(), newest.Val()))
	if len(ids) == 0 {
		return 0, nil
	}
	pipe = s.rdb.Pipeline()
	var sizes []*redis.IntCmd
	for _, id := range ids {
		sizes = append(sizes, pipe.MemoryUsage(ctx, s.keys.Execution(tenant, id)), pipe.MemoryUsage(ctx, s.keys.History(tenant, id)))
	}
	if err := firstTemporary(pipe.Exec(ctx)); err != nil {
		return 0, Failed("weigh finished executions", err)
	}
	sum := int64(0)
	for _, size := range sizes {
		sum += size.Val() // 0 if it is gone or unknown
	}
	if sum == 0 {
		return 0, nil
	}
	for _, id := range ids {
		sum += int64(len(id)) + entryOverhead
	}
	return sum * count.Val() / int64(len(ids)), nil
}
