package agenda

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Partitions knows the partitions and the processes that share them.
type Partitions struct {
	rdb  *wire.Client
	keys keys
	keep time.Duration // minimum time for which a former number of partitions is remembered

	mu    sync.Mutex
	known partitioning
}

func newPartitions(rdb *wire.Client, keep time.Duration) *Partitions {
	return &Partitions{rdb: rdb, keys: keys{wire.Clustered(rdb)}, keep: keep}
}

// partitioning holds the numbers of partitions that set_partitions.lua stores.
type partitioning struct {
	epoch  string // "" if no number was set
	newest int
	former []former
}

// former is a number of partitions that was replaced by another.
type former struct {
	count    int
	replaced time.Time
}

// parsePartitioning reads the fields of the hash.
func parsePartitioning(fields wire.List) (c partitioning) {
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields.Text(i), fields.Text(i+1)
		n, _ := strconv.ParseInt(value, 10, 64)
		switch count, ok := strings.CutPrefix(name, "former:"); {
		case name == "epoch":
			c.epoch = value
		case name == "count":
			c.newest = int(n)
		case ok:
			count, _ := strconv.Atoi(count)
			c.former = append(c.former, former{count, moment(n)})
		}
	}
	slices.SortFunc(c.former, func(a, b former) int { return b.replaced.Compare(a.replaced) })
	return c
}

// of returns the partitions that may hold an event, beginning with the one in which a new event is
// stored.
func (c partitioning) of(id string) []int {
	out := []int{schedule.Partition(id, c.newest)}
	for _, f := range c.former {
		if p := schedule.Partition(id, f.count); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// formerCount returns the former number that places an event in a partition, or 0 if the newest one
// does.
func (c partitioning) formerCount(id string, partition int) int {
	if schedule.Partition(id, c.newest) == partition {
		return 0
	}
	for _, f := range c.former {
		if schedule.Partition(id, f.count) == partition {
			return f.count
		}
	}
	return 0
}

// maxFormer returns the greatest former number of partitions.
func (c partitioning) maxFormer() (n int) {
	for _, f := range c.former {
		n = max(n, f.count)
	}
	return n
}

// all returns the partitions under all numbers.
func (c partitioning) all() []int { return numbers(max(c.newest, c.maxFormer())) }

// numbers returns the integers from 0 to n-1.
func numbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Now returns the time of Redis.
func (p *Partitions) Now(ctx context.Context) (time.Time, error) {
	pipe := p.rdb.Pipeline()
	clock := p.rdb.TimeOf(ctx, pipe, p.keys.partitions())
	_, err := pipe.Exec(ctx)
	return clock.Val().UTC(), store.Failed("read the time", err)
}

// partitioning returns the known numbers of partitions, or reads them. The error wraps
// schedule.ErrPartitions if none was set.
func (p *Partitions) partitioning(ctx context.Context) (partitioning, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known.newest > 0 {
		return known, nil
	}
	m, read, err := p.read(ctx, "", 0)
	if err == nil && m.Count == 0 {
		err = fmt.Errorf("%w: none was set", schedule.ErrPartitions)
	}
	return read, err
}

// forget makes the next call of partitioning read them again.
func (p *Partitions) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = partitioning{}
}

// Members returns the processes that fire events, and the partitions. If process is not "", it is
// registered for ttl, or removed if ttl is 0.
func (p *Partitions) Members(ctx context.Context, process string, ttl time.Duration) (schedule.Members, error) {
	m, _, err := p.read(ctx, process, ttl)
	return m, err
}

// read does what Members does, and also returns the numbers of partitions. It takes one round trip
// unless these have changed.
func (p *Partitions) read(ctx context.Context, process string, ttl time.Duration) (schedule.Members, partitioning, error) {
	for {
		p.mu.Lock()
		former := p.known.maxFormer()
		p.mu.Unlock()
		keys := []string{p.keys.members(), p.keys.partitions()}
		for i := range former {
			keys = append(keys, p.keys.prefix(i))
		}
		reply, err := membersScript().Run(ctx, p.rdb, keys, process, ttl.Milliseconds(), p.keep.Milliseconds()).Slice()
		if err != nil {
			return schedule.Members{}, partitioning{}, store.Failed("read the members", err)
		}
		list := wire.List(reply)
		read := parsePartitioning(list.List(2))
		p.mu.Lock()
		p.known = read
		p.mu.Unlock()
		if read.maxFormer() > former {
			continue
		}
		m := schedule.Members{
			Now: moment(number(list.Text(0))), Processes: list.List(1).Texts(), Partitions: numbers(read.newest), Count: read.newest,
		}
		slices.Sort(m.Processes)
		for i := read.newest; i < former; i++ {
			if list.List(3).Number(i) == 1 {
				m.Partitions = append(m.Partitions, i)
			}
		}
		return m, read, nil
	}
}

// SetPartitions sets the number of partitions to count if the newest number is from (0 if none was
// set) or already count; otherwise it returns schedule.ErrPartitions.
func (p *Partitions) SetPartitions(ctx context.Context, from, count int) error {
	defer p.forget()
	set, err := setPartitionsScript().Run(ctx, p.rdb, []string{p.keys.partitions()}, from, count).Int()
	switch {
	case err != nil:
		return store.Failed("set the partitions", err)
	case set == 0:
		return fmt.Errorf("%w than %d", schedule.ErrPartitions, from)
	}
	return nil
}

// Counts returns the numbers of events in each partition. Events that were due more than late ago
// and that no process has taken are overdue.
func (p *Partitions) Counts(ctx context.Context, late time.Duration) ([]schedule.Counts, error) {
	known, err := p.partitioning(ctx)
	if err != nil {
		return nil, err
	}
	all := known.all()
	calls := make([]wire.Call, len(all))
	for i, n := range all {
		calls[i] = wire.Call{Keys: []string{p.keys.prefix(n)}, Args: []any{late.Milliseconds()}}
	}
	replies, _ := p.rdb.RunEach(ctx, countsScript(), calls)
	out := make([]schedule.Counts, len(all))
	for i, r := range replies {
		reply, err := r.Slice()
		if err != nil {
			return nil, store.Failed("count scheduled events", err)
		}
		list := wire.List(reply)
		out[i] = schedule.Counts{
			Partition: all[i], Now: moment(number(list.Text(0))), Scheduled: list.Number(1), Overdue: list.Number(2), Firing: list.Number(3), Dead: list.Number(4),
			Next: moment(number(list.Text(5))),
		}
	}
	return out, nil
}

// number parses a number from a reply.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // scripts return nothing else
	return n
}
