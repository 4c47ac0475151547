package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
)

// A process that runs services registers in Redis, and signs off when it stops.
const (
	HeartbeatEvery = 10 * time.Second // how often a process renews its entry
	DeadAfter      = 30 * time.Second // a process without a heartbeat counts as dead
	ForgottenAfter = time.Hour        // when entries of dead and stopped processes are removed
)

// Process is a process that runs services, as it has registered itself. Its JSON form
// is a field of the hash flunq:processes.
type Process struct {
	Format    int              `json:"format"`
	Name      string           `json:"process"` // unique; part of the names of its consumers
	Command   string           `json:"command,omitempty"`
	Host      string           `json:"host,omitempty"`
	PID       int              `json:"pid,omitempty"`
	Version   string           `json:"version,omitempty"`
	Services  []RunningService `json:"services"`
	Tenants   []string         `json:"tenants,omitempty"`
	All       bool             `json:"all_tenants,omitempty"` // it discovers tenants
	Embedded  bool             `json:"embedded,omitempty"`    // the Redis is inside the process, so it lives while the Redis answers
	Transient bool             `json:"transient,omitempty"`   // its entry is removed when it stops
	Circuits  []OpenCircuit    `json:"circuits,omitempty"`    // its executor's circuit breakers that are not closed
	LeaseMS   int64            `json:"lease_ms,omitempty"`    // lease in milliseconds; 0 for older versions
	Limits    *ProcessLimits   `json:"limits,omitempty"`      // nil for older versions
	Started   time.Time        `json:"started"`               // all times are Redis'
	Heartbeat time.Time        `json:"heartbeat"`
	Stopped   time.Time        `json:"stopped,omitzero"` // when it signed off
}

// RunningService is a service that a process runs.
type RunningService struct {
	Name      string   `json:"service"` // worker, executor, timer or bridge
	Group     string   `json:"group"`
	Consumers []string `json:"consumers"` // names of its consumers
}

// ProcessLimits are the limits on starts that a process enforces; 0: none.
type ProcessLimits struct {
	Executions   int `json:"executions"`
	RedisPercent int `json:"redis_percent"`
}

// OpenCircuit is a circuit breaker of a process that is not closed.
type OpenCircuit struct {
	Tenant   string    `json:"tenant,omitempty"` // the tenant whose calls it stops; "" is all, in older versions
	Host     string    `json:"host"`
	Failures int       `json:"failures"` // in a row
	Until    time.Time `json:"until"`    // when it lets the next call through, as a test
}

// processFormat is the version of a Process' JSON form.
const processFormat = 1

// Alive reports whether the process is alive at a moment of Redis' clock: it has not signed
// off, and its last heartbeat is recent.
func (p *Process) Alive(now time.Time) bool {
	return p.Stopped.IsZero() && (p.Embedded || now.Sub(p.Heartbeat) <= DeadAfter)
}

// Runs reports whether the process runs a service for a tenant.
func (p *Process) Runs(service, tenant string) bool {
	return (p.All && !Private(tenant) || slices.Contains(p.Tenants, tenant)) && p.Service(service) != nil
}

// Service returns a service of the process; nil if it does not run it.
func (p *Process) Service(name string) *RunningService {
	for i := range p.Services {
		if p.Services[i].Name == name {
			return &p.Services[i]
		}
	}
	return nil
}

// Register writes the entry of a process with Redis' time as its heartbeat, and sets the times
// of p.
func (s *Store) Register(ctx context.Context, p *Process) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	p.Format, p.Heartbeat, p.Stopped = processFormat, now, time.Time{}
	if p.Started.IsZero() {
		p.Started = now
	}
	return Failed("register the process", s.writeEvenIfFull(ctx, "hset", s.keys.processes(), p.Name, event.Encode(p)))
}

// SignOff records that a process has stopped.
func (s *Store) SignOff(ctx context.Context, p *Process) error {
	if p.Transient {
		return Failed("sign the process off", s.rdb.HDel(ctx, s.keys.processes(), p.Name).Err())
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	p.Stopped = now
	return Failed("sign the process off", s.writeEvenIfFull(ctx, "hset", s.keys.processes(), p.Name, event.Encode(p)))
}

// Processes returns the registered processes, by their start, and Redis' time. Stopped and
// dead ones stay for ForgottenAfter, or longer if no process removes them.
func (s *Store) Processes(ctx context.Context) (all []Process, now time.Time, err error) {
	pipe := s.rdb.Pipeline()
	clock, entries := pipe.Time(ctx), pipe.HGetAll(ctx, s.keys.processes())
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, now, Failed("read which processes run", err)
	}
	for name, text := range entries.Val() {
		var p Process
		if json.Unmarshal([]byte(text), &p) == nil && p.Name == name {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Process) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Name, b.Name)) })
	return all, clock.Val().UTC(), nil
}

// ForgetProcesses removes the entries of processes that stopped or died long ago.
func (s *Store) ForgetProcesses(ctx context.Context) error {
	all, now, err := s.Processes(ctx)
	if err != nil {
		return err
	}
	var gone []string
	for i := range all {
		if p := &all[i]; !p.Alive(now) && now.Sub(p.LastSeen()) > ForgottenAfter {
			gone = append(gone, p.Name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return Failed("forget processes", s.rdb.HDel(ctx, s.keys.processes(), gone...).Err())
}

// LastSeen returns when the process last wrote its entry.
func (p *Process) LastSeen() time.Time {
	if p.Stopped.After(p.Heartbeat) {
		return p.Stopped
	}
	return p.Heartbeat
}

// FirstInPeriod reports whether the caller is the first process to ask for a task within a
// period. Only the first carries it out.
func (s *Store) FirstInPeriod(ctx context.Context, what string, period time.Duration) (bool, error) {
	mine, err := s.rdb.SetNX(ctx, s.keys.turn(what), "1", period).Result()
	return mine, Failed("ask whose turn it is", err)
}
