package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
)

// A process that runs services says so in Redis, and says when it stops.
const (
	HeartbeatEvery = 10 * time.Second // how often a process renews its entry
	DeadAfter      = 30 * time.Second // without a heartbeat a process counts as dead
	ForgottenAfter = time.Hour        // entries of dead and stopped processes are removed
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
	All       bool             `json:"all_tenants,omitempty"` // it finds all tenants, new ones too
	Embedded  bool             `json:"embedded,omitempty"`    // the Redis is inside the process, so it lives while the Redis answers
	Transient bool             `json:"transient,omitempty"`   // its entry goes when it stops
	Circuits  []OpenCircuit    `json:"circuits,omitempty"`    // of its executor's circuit breakers, those that are not closed
	LeaseMS   int64            `json:"lease_ms,omitempty"`    // after which it takes over what a silent process holds; unknown of older versions
	Limits    *ProcessLimits   `json:"limits,omitempty"`      // unknown of older versions
	Started   time.Time        `json:"started"`               // all times are Redis'
	Heartbeat time.Time        `json:"heartbeat"`
	Stopped   time.Time        `json:"stopped,omitzero"` // when it signed off
}

// RunningService is a service that a process runs.
type RunningService struct {
	Name      string   `json:"service"` // worker, executor or timer
	Group     string   `json:"group"`
	Consumers []string `json:"consumers"` // that it reads as
}

// ProcessLimits are the limits on starts that a process enforces; 0: none.
type ProcessLimits struct {
	Executions   int `json:"executions"`
	RedisPercent int `json:"redis_percent"`
}

// OpenCircuit is a circuit breaker of a process that is not closed.
type OpenCircuit struct {
	Tenant   string    `json:"tenant,omitempty"` // whose calls it stops; all tenants' in processes of older versions
	Host     string    `json:"host"`
	Failures int       `json:"failures"` // in a row
	Until    time.Time `json:"until"`    // no call is sent before; after that the next one shows whether the host is well
}

// processFormat is the version of a Process' JSON form.
const processFormat = 1

// Alive reports whether the process runs, as far as Redis can tell at a moment of its
// own clock: it has not signed off, and its last heartbeat is recent.
func (p *Process) Alive(now time.Time) bool {
	return p.Stopped.IsZero() && (p.Embedded || now.Sub(p.Heartbeat) <= DeadAfter)
}

// Runs reports whether the process runs a service for a tenant.
func (p *Process) Runs(service, tenant string) bool {
	return (p.All && !Private(tenant) || slices.Contains(p.Tenants, tenant)) && p.Service(service) != nil
}

// Service is a service of the process; nil if it does not run it.
func (p *Process) Service(name string) *RunningService {
	for i := range p.Services {
		if p.Services[i].Name == name {
			return &p.Services[i]
		}
	}
	return nil
}

// Register writes the entry of a process, with the time of Redis as its heartbeat, and
// fills in the times of p.
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

// SignOff notes that a process has stopped.
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

// Processes are those that have registered, by their start, and the time of Redis. Those
// that stopped or died stay for ForgottenAfter, or longer if no other process runs.
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

// LastSeen is when the process last said anything.
func (p *Process) LastSeen() time.Time {
	if p.Stopped.After(p.Heartbeat) {
		return p.Stopped
	}
	return p.Heartbeat
}

// Turn reports whether the caller is the first of all processes to ask for something within
// a period: it does it then, and the others leave it.
func (s *Store) Turn(ctx context.Context, what string, period time.Duration) (bool, error) {
	mine, err := s.rdb.SetNX(ctx, s.keys.turn(what), "1", period).Result()
	return mine, Failed("ask whose turn it is", err)
}
