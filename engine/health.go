package engine

import (
	"sync"
	"time"
)

// Status is the health of a service instance.
type Status string

// The statuses of a service instance, and of several together.
const (
	Healthy   Status = "healthy"
	Degraded  Status = "degraded"  // steps fail or take too long
	Unhealthy Status = "unhealthy" // they have done so for half a minute
)

const (
	slowAfter   = 10 * time.Second // a step that takes longer is too slow
	deadAfter   = 30 * time.Second // a service without a successful step for longer is unhealthy
	repeatEvery = 10 * time.Second // minimum time between two log entries about one error
)

// Health is the health of one service instance.
type Health struct {
	Group, Name string
	Status      Status
	Failures    int       // consecutive failed steps
	Err         error     // of the last step
	Since       time.Time // when a step last succeeded, by the machine's clock
}

// serviceHealth is the state of a running service.
type serviceHealth struct {
	service Service

	mu         sync.Mutex
	began      time.Time // of the step in progress; zero between steps
	lastGood   time.Time
	lastReport time.Time // when an error was last logged
	failed     int
	err        error
}

// track adds and returns the health of a service that begins to run.
func (e *Engine) track(s Service) *serviceHealth {
	p := &serviceHealth{service: s, lastGood: time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = append(e.running, p)
	return p
}

func (p *serviceHealth) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = now
}

// end records the outcome of a step. It returns the number of consecutive failures, and whether to
// log the outcome: an error that is new or lasts, or a success after a logged error.
func (p *serviceHealth) end(now time.Time, err error) (failures int, report bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = time.Time{}
	if err == nil {
		report = !p.lastReport.IsZero()
		p.lastGood, p.failed, p.err, p.lastReport = now, 0, nil, time.Time{}
		return 0, report
	}
	p.failed++
	p.err = err
	if report = now.Sub(p.lastReport) >= repeatEvery; report {
		p.lastReport = now
	}
	return p.failed, report
}

// health assesses a service. A long step does not count against an executor, since a call may
// take long.
func (p *serviceHealth) health(now time.Time) Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := Health{Group: p.service.Group, Name: p.service.Name, Status: Healthy, Failures: p.failed, Err: p.err, Since: p.lastGood}
	stuck := time.Duration(0)
	if !p.began.IsZero() && p.service.Group != "executor" {
		stuck = now.Sub(p.began)
	}
	switch {
	case p.failed > 0 && now.Sub(p.lastGood) > deadAfter, stuck > deadAfter:
		h.Status = Unhealthy
	case p.failed > 0, stuck > slowAfter:
		h.Status = Degraded
	}
	return h
}

// Health returns the health of this process' services, in the order in which they started. It
// is empty before Run.
func (e *Engine) Health() []Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	out := make([]Health, 0, len(e.running))
	for _, p := range e.running {
		out = append(out, p.health(now))
	}
	return out
}
