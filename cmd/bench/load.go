package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/stream"
)

// loaded measures the latency of one-task workflows while another tenant has a backlog, and
// without that load.
func (l latency) loaded(ctx context.Context) error {
	def, _, err := dsl.Parse("bench.yaml", []byte(one().text))
	if err != nil {
		return err
	}
	n := l.opts.size(20_000, 300)
	var both [2]Result
	for i, backlog := range []int{0, n} {
		name := fmt.Sprintf("%d/s under load of another tenant", startsPerSecond)
		got, err := l.beside(ctx, def, backlog, name)
		if err != nil {
			return err
		}
		both[i] = got.result(name)
	}
	l.add(both[1].besideTimes(both[0], fmt.Sprintf("without %d executions of another tenant", n)))
	return nil
}

// startsPerSecond is the start rate of the measured tenant.
const startsPerSecond = 100

// beside starts executions at a steady rate, whether or not earlier ones have ended, while
// the services process the backlog of another tenant.
func (l latency) beside(ctx context.Context, def *dsl.Definition, backlog int, name string) (got durations, err error) {
	if err := l.fresh(ctx); err != nil {
		return nil, err
	}
	others := *l.scenarioRun
	others.tenant = l.tenant + loadSuffix
	if err := stream.New(others.store).Groups(ctx, others.tenant); err != nil {
		return nil, err
	}
	if err := errors.Join(l.define(ctx, def), others.start(ctx, def, backlog)); err != nil {
		return nil, err
	}
	c, err := l.startServices(ctx, servicesRequest{Others: []string{others.tenant}, Workers: true, Executors: true, Remote: true})
	if err != nil {
		return nil, err
	}
	c.begin()
	defer func() { err = errors.Join(err, c.end()) }()
	return l.pace(ctx, def, name, func(took time.Duration) (float64, error) {
		if backlog == 0 {
			return float64(took) / float64(l.opts.Duration), nil
		}
		counts, err := l.store.Counts(ctx, others.tenant)
		return float64(counts.Completed) / float64(backlog), err
	})
}

// pace starts executions until done reports a share of 1.
func (l latency) pace(ctx context.Context, def *dsl.Definition, name string, done func(time.Duration) (float64, error)) (durations, error) {
	timed, cancel := context.WithTimeout(ctx, l.opts.Duration+stallTimeout)
	defer cancel()
	starts := &pendingStart{ended: map[string]chan struct{}{}}
	reading, stop := context.WithCancel(timed)
	read := make(chan error, 1)
	go func() { read <- l.watch(reading, l.streamKey(), completes, starts) }()

	p := latencies{}
	began := time.Now()
	for i := 0; p.err() == nil; i++ {
		share, err := done(time.Since(began))
		l.report(name, share)
		if err != nil || share >= 1 && i > 1 {
			p.note(0, err)
			break
		}
		p.running.Go(func() {
			took, err := starts.run(timed, fmt.Sprintf("x%d", i), func(ctx context.Context, id string) error { return l.begin(ctx, def, id) })
			if i > 0 { // the first one is slow, since it wakes idle services
				p.note(took, err)
			}
		})
		p.note(0, pause(timed, time.Until(began.Add(time.Duration(i+1)*time.Second/startsPerSecond))))
	}
	p.running.Wait()
	stop()
	return p.times, errors.Join(p.err(), <-read)
}

// completes returns the execution that an entry completes.
func completes(e redis.XMessage) (string, bool) {
	id, _ := e.Values["executionid"].(string)
	return id, e.Values["type"] == string(event.WorkflowCompleted)
}

// latencies collects the latencies of concurrent executions.
type latencies struct {
	running sync.WaitGroup

	mu    sync.Mutex
	times durations
	wrong error
}

// note adds a latency (0: none) or an error.
func (p *latencies) note(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = errors.Join(p.wrong, err)
	if took > 0 {
		p.times = append(p.times, took)
	}
}

func (p *latencies) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrong
}
