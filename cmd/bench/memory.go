package bench

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// memory measures how many bytes of Redis a timer, an event and an execution take.
type memory struct{ *scenarioRun }

// measure measures the bytes per item and the size of its content.
func (m memory) measure(ctx context.Context) error {
	if !m.read(ctx, nil).known {
		m.add(Result{Name: "not reported by this Redis", Unit: "bytes"})
		return nil
	}
	for _, measure := range []func(context.Context) error{m.ofTimers, m.ofEvents, m.ofExecutions} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// grown returns how many bytes of memory do adds to Redis. It runs do twice, since Redis allocates
// statistics for each command at its first use, some 30 kB each.
func (m memory) grown(ctx context.Context, do func() error) (float64, error) {
	if err := m.fresh(ctx); err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	if err := m.fresh(ctx); err != nil {
		return 0, err
	}
	before := m.used(ctx)
	if err := do(); err != nil {
		return 0, err
	}
	return float64(m.used(ctx) - before), nil
}

// used returns the number of bytes that Redis uses, without the buffers of its clients, which vary.
// INFO has only an estimate of the latter.
func (m memory) used(ctx context.Context) int64 {
	used := m.read(ctx, nil).memory
	_ = wire.EachMaster(ctx, m.rdb, func(ctx context.Context, master wire.Redis, _ string) error {
		clients, err := master.ClientList(ctx).Result()
		for _, found := range clientMemory.FindAllStringSubmatch(clients, -1) {
			n, _ := strconv.ParseInt(found[1], 10, 64)
			used -= n
		}
		return err
	})
	return used
}

var clientMemory = regexp.MustCompile(`\btot-mem=([0-9]+)`)

func (m memory) ofTimers(ctx context.Context) error {
	m.report("pending timers", 0)
	n, due := m.opts.size(100_000, 1000), time.Now().Add(24*time.Hour)
	at := func(i int) time.Time { return due.Add(time.Duration(i) * time.Millisecond) }
	bytes, err := m.grown(ctx, func() error { return m.set(ctx, m.timersKey(), n, at) })
	if err != nil {
		return err
	}
	text := float64(len(event.Encode(m.timer(0, due.Add(time.Millisecond)))))
	m.add(Result{Name: "a pending timer", Unit: "bytes", Bytes: bytes / float64(n), Count: n}.beside(text, "its JSON"))
	return nil
}

func (m memory) ofEvents(ctx context.Context) error {
	m.report("events of the stream", 0)
	n := m.opts.size(20_000, 1000)
	bytes, err := m.grown(ctx, func() error { return m.publish(ctx, n, m.requested) })
	if err != nil {
		return err
	}
	text := 0
	for _, field := range m.requested(0).Fields() {
		text += len(field)
	}
	m.add(Result{Name: "an event of the stream", Unit: "bytes", Bytes: bytes / float64(n), Count: n}.
		beside(float64(text), "the text of its fields"))
	return nil
}

// ofExecutions measures finished one-task executions after their events have left the stream.
func (m memory) ofExecutions(ctx context.Context) error {
	n := m.opts.size(3000, 50)
	done := 0
	bytes, err := m.grown(ctx, func() error {
		got, err := m.work(ctx, one(), n)
		if done = got.n; err != nil {
			return err
		}
		return m.rdb.Del(ctx, m.streamKey()).Err()
	})
	if err != nil {
		return err
	}
	text, err := m.written(ctx)
	if err != nil {
		return err
	}
	m.add(Result{Name: "a finished execution of one task", Unit: "bytes", Bytes: bytes / float64(done), Count: done}.
		beside(text, "the text of its fields and history"))
	return nil
}

// written returns the size in bytes of the fields and the history of an execution.
func (m memory) written(ctx context.Context) (float64, error) {
	const id = "x0000001"
	keys := m.store.Keys()
	pipe := m.rdb.Pipeline()
	fields, history := pipe.HGetAll(ctx, keys.Execution(m.tenant, id)), pipe.XRange(ctx, keys.History(m.tenant, id), "-", "+")
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, fmt.Errorf("read an execution: %w", err)
	}
	sum := 0
	for name, value := range fields.Val() {
		sum += len(name) + len(value)
	}
	for _, entry := range history.Val() {
		for name, value := range entry.Values {
			text, _ := value.(string)
			sum += len(name) + len(text)
		}
	}
	return float64(sum), nil
}
