// Package processes keeps track of the processes that run services: each registers in Redis, renews
// its entry, and signs off when it stops.
package processes

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// How processes show that they are alive.
const (
	HeartbeatEvery = 10 * time.Second // interval at which a process renews its entry
	DeadAfter      = 30 * time.Second // a process without a heartbeat counts as dead
	ForgottenAfter = time.Hour        // when entries of dead and stopped processes are removed
)

// Processes gives access to the registered processes of a Redis.
type Processes struct {
	store *store.Store
	rdb   *wire.Client
	keys  store.Keys
}

// In returns the processes of a Store's Redis.
func In(s *store.Store) Processes { return Processes{store: s, rdb: s.Redis(), keys: s.Keys()} }

// Process is a process that runs services, as registered by itself. Its JSON form is a field of the
// hash flunq:processes.
type Process struct {
	Format    int       `json:"format"`
	Name      string    `json:"process"` // unique; part of the names of its consumers
	Command   string    `json:"command,omitempty"`
	Host      string    `json:"host,omitempty"`
	PID       int       `json:"pid,omitempty"`
	Version   string    `json:"version,omitempty"`
	Services  []Service `json:"services"`
	Tenants   []string  `json:"tenants,omitempty"`
	All       bool      `json:"all_tenants,omitempty"` // it discovers tenants
	Embedded  bool      `json:"embedded,omitempty"`    // Redis runs inside the process, so the process is alive while Redis responds
	Transient bool      `json:"transient,omitempty"`   // its entry is removed when it stops
	Circuits  []Circuit `json:"circuits,omitempty"`    // its executor's circuit breakers that are not closed
	LeaseMS   int64     `json:"lease_ms,omitempty"`    // lease in milliseconds; 0 for older versions
	Limits    *Limits   `json:"limits,omitempty"`      // nil for older versions
	Started   time.Time `json:"started"`               // all times are Redis'
	Heartbeat time.Time `json:"heartbeat"`
	Stopped   time.Time `json:"stopped,omitzero"` // when it signed off
}

// Service is a service that a process runs.
type Service struct {
	Name      string   `json:"service"` // worker, executor, timer or bridge
	Group     string   `json:"group"`
	Consumers []string `json:"consumers"`         // names of its consumers
	Failing   string   `json:"failing,omitempty"` // why it has done nothing for half a minute; "": it works
}

// Limits holds the limits on starts that a process enforces; 0: none.
type Limits struct {
	Executions   int `json:"executions"`
	RedisPercent int `json:"redis_percent"`
}

// Circuit is a circuit breaker of a process that is not closed.
type Circuit struct {
	Tenant   string    `json:"tenant,omitempty"` // the tenant whose calls it stops; "" is all, in older versions
	Host     string    `json:"host"`
	Failures int       `json:"failures"` // consecutive failures
	Until    time.Time `json:"until"`    // when it lets the next call through, as a test
}

// processFormat is the version of a Process' JSON form.
const processFormat = 1

// Alive reports whether the process is alive at a moment of Redis' clock: it has not signed
// off, and its last heartbeat is recent. One in the future is from before the clock went back.
func (p *Process) Alive(now time.Time) bool {
	return p.Stopped.IsZero() && (p.Embedded || now.Sub(p.Heartbeat).Abs() <= DeadAfter)
}

// Serves reports whether the process runs any service for a tenant.
func (p *Process) Serves(tenant string) bool {
	return (p.All && !store.Private(tenant) || slices.Contains(p.Tenants, tenant)) && len(p.Services) > 0
}

// Runs reports whether the process runs a service for a tenant.
func (p *Process) Runs(service, tenant string) bool {
	return p.Serves(tenant) && p.Service(service) != nil
}

// Service returns a service of the process; nil if it does not run it.
func (p *Process) Service(name string) *Service {
	for i := range p.Services {
		if p.Services[i].Name == name {
			return &p.Services[i]
		}
	}
	return nil
}

// Register writes the entry of a process with Redis' time as its heartbeat, and sets the times
// of p.
func (ps Processes) Register(ctx context.Context, p *Process) error {
	now, err := ps.store.Now(ctx)
	if err != nil {
		return err
	}
	p.Format, p.Heartbeat, p.Stopped = processFormat, now, time.Time{}
	if p.Started.IsZero() {
		p.Started = now
	}
	return store.Failed("register the process", ps.write(ctx, p))
}

// SignOff records that a process has stopped.
func (ps Processes) SignOff(ctx context.Context, p *Process) error {
	if p.Transient {
		return store.Failed("sign the process off", ps.rdb.HDel(ctx, ps.keys.Processes(), p.Name).Err())
	}
	now, err := ps.store.Now(ctx)
	if err != nil {
		return err
	}
	p.Stopped = now
	return store.Failed("sign the process off", ps.write(ctx, p))
}

// write writes the entry of a process, even if Redis is full.
func (ps Processes) write(ctx context.Context, p *Process) error {
	key := ps.keys.Processes()
	_, err := ps.store.WriteEvenIfFull(ctx, key, "hset", key, p.Name, event.Encode(p))
	return err
}

// All returns the registered processes, by start time, and Redis' time. Stopped and dead ones stay
// for ForgottenAfter, or longer if no process removes them.
func (ps Processes) All(ctx context.Context) (all []Process, now time.Time, err error) {
	pipe := ps.rdb.Pipeline()
	clock, entries := pipe.Time(ctx), pipe.HGetAll(ctx, ps.keys.Processes())
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, now, store.Failed("read which processes run", err)
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

// Forget removes the entries of processes that stopped or died long ago.
func (ps Processes) Forget(ctx context.Context) error {
	all, now, err := ps.All(ctx)
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
	return store.Failed("forget processes", ps.rdb.HDel(ctx, ps.keys.Processes(), gone...).Err())
}

// LastSeen returns when the process last wrote its entry.
func (p *Process) LastSeen() time.Time {
	if p.Stopped.After(p.Heartbeat) {
		return p.Stopped
	}
	return p.Heartbeat
}

// FirstInPeriod reports whether the caller is the first process to ask for a task within a period.
// Only the first carries it out.
func (ps Processes) FirstInPeriod(ctx context.Context, what string, period time.Duration) (bool, error) {
	key := ps.keys.Turn(what)
	mine, err := ps.store.WriteEvenIfFull(ctx, key, "set", key, "1", "px", period.Milliseconds(), "nx")
	return mine, store.Failed("ask whose turn it is", err)
}
