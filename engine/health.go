package engine

import (
	"sync"
	"time"
)

// Status is the health of a service instance.
type Status string

// The statuses of services, and of all of them together.
const (
	Healthy   Status = "healthy"
	Degraded  Status = "degraded"  // it fails, or a step takes too long
	Unhealthy Status = "unhealthy" // it has done so for half a minute
)

const (
	slowAfter   = 10 * time.Second // a step that takes longer is reported
	deadAfter   = 30 * time.Second // so long without success is unhealthy
	repeatEvery = 10 * time.Second // for the same error
)

// Health is the health of one service instance.
type Health struct {
	Group, Name string
	Status      Status
	Failures    int       // consecutive failed steps
	Err         error     // of the last step
	Since       time.Time // when it last did well, by the machine's clock
}

// pulse is the state of a running service.
type pulse struct {
	service Service

	mu         sync.Mutex
	began      time.Time // of the step in progress; zero between two
	lastGood   time.Time
	lastReport time.Time // when an error was last logged
	failed     int
	err        error
}

// beat returns the pulse of a service that begins to run.
func (e *Engine) beat(s Service) *pulse {
	p := &pulse{service: s, lastGood: time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pulses = append(e.pulses, p)
	return p
}

func (p *pulse) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = now
}

// end records the outcome of a step and reports whether to log it: a new or lasting
// error, or the end of one that was logged.
func (p *pulse) end(now time.Time, err error) (tell bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = time.Time{}
	if err == nil {
		tell = !p.lastReport.IsZero()
		p.lastGood, p.failed, p.err, p.lastReport = now, 0, nil, time.Time{}
		return tell
	}
	p.failed++
	p.err = err
	if now.Sub(p.lastReport) < repeatEvery {
		return false
	}
	p.lastReport = now
	return true
}

func (p *pulse) failures() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// health assesses a service. An executor may be busy with one call for long.
func (p *pulse) health(now time.Time) Health {
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

// Health returns the health of this process' services, in the order of Services; empty
// before Run.
func (e *Engine) Health() []Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	out := make([]Health, 0, len(e.pulses))
	for _, p := range e.pulses {
		out = append(out, p.health(now))
	}
	return out
}
