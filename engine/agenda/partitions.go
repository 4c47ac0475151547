package agenda

import (
	"cmp"
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

// partitions knows the partitions and the processes that share them.
type partitions struct {
	rdb *wire.Client

	mu    sync.Mutex
	known counts
}

// counts are the numbers of partitions, as set_partitions.lua keeps them.
type counts struct {
	epoch  string // "" if no number was set
	newest int
	former []former
}

// former is a number of partitions that was left.
type former struct {
	count int
	left  time.Time
}

// countsOf reads the fields of the hash.
func countsOf(fields wire.List) (c counts) {
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
	slices.SortFunc(c.former, func(a, b former) int { return cmp.Compare(b.left.UnixMilli(), a.left.UnixMilli()) })
	return c
}

// of returns the partitions in which an event may be, first the one in which it is stored if
// it is new.
func (c counts) of(id string) []int {
	out := []int{schedule.Partition(id, c.newest)}
	for _, f := range c.former {
		if p := schedule.Partition(id, f.count); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// all returns the partitions of all numbers.
func (c counts) all() []int {
	most := c.newest
	for _, f := range c.former {
		most = max(most, f.count)
	}
	out := make([]int, most)
	for i := range out {
		out[i] = i
	}
	return out
}

// Now returns the time of Redis.
func (p *partitions) Now(ctx context.Context) (time.Time, error) {
	now, err := p.rdb.Time(ctx).Result()
	return now.UTC(), store.Failed("read the time", err)
}

// counts returns the known numbers of partitions, or reads them. The error wraps
// schedule.ErrPartitions if none was set.
func (p *partitions) counts(ctx context.Context) (counts, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known.newest > 0 {
		return known, nil
	}
	_, _, read, err := p.read(ctx, "", 0)
	if err == nil && read.newest == 0 {
		err = fmt.Errorf("%w: none was set", schedule.ErrPartitions)
	}
	return read, err
}

// forget makes the next call of counts read them.
func (p *partitions) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = counts{}
}

// read registers a process and reads the processes and the numbers of partitions.
func (p *partitions) read(ctx context.Context, process string, ttl time.Duration) (time.Time, []string, counts, error) {
	cmd := call(ctx, p.rdb, membersScript, []string{membersKey, partitionsKey}, process, ttl.Milliseconds())
	reply, err := cmd.Slice()
	if err != nil {
		return time.Time{}, nil, counts{}, store.Failed("read the members", err)
	}
	list := wire.List(reply)
	read := countsOf(list.List(2))
	p.mu.Lock()
	p.known = read
	p.mu.Unlock()
	return moment(number(list.Text(0))), list.List(1).Texts(), read, nil
}

// Members returns the processes that fire events and the partitions. A process that is not ""
// is registered for ttl, or with a ttl of 0 removed.
func (p *partitions) Members(ctx context.Context, process string, ttl time.Duration) (schedule.Members, error) {
	now, processes, counts, err := p.read(ctx, process, ttl)
	if err != nil {
		return schedule.Members{}, err
	}
	slices.Sort(processes)
	m := schedule.Members{Now: now, Processes: processes, Partitions: counts.all(), Count: counts.newest}
	return m, nil
}

// SetPartitions makes count the number of partitions, if the newest one is from, 0 if none was
// set, or already count; else it returns schedule.ErrPartitions.
func (p *partitions) SetPartitions(ctx context.Context, from, count int) error {
	defer p.forget()
	set, err := call(ctx, p.rdb, setPartitionsScript, []string{partitionsKey}, from, count).Int()
	switch {
	case err != nil:
		return store.Failed("set the partitions", err)
	case set == 0:
		return fmt.Errorf("%w than %d", schedule.ErrPartitions, from)
	}
	return nil
}

// number returns the number that a text stands for.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // scripts return nothing else
	return n
}
