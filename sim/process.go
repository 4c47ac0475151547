package sim

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
)

// process is one engine process of the simulation, which can crash, stop and restart.
type process struct {
	index, incarnation int
	engine             *engine.Engine
	services           []*service

	stopping  bool      // it was asked to stop
	grace     time.Time // stopping: when it is killed
	dead      bool
	restartAt time.Time // dead: when it restarts
	frozen    time.Time // frozen until then
}

// supervisor crashes, stops and removes processes.
type supervisor struct {
	scheduler

	sent map[string]uint64 // number of commands of each service
}

// name is the suffix of its consumers' names. The first incarnation of the first process
// always has the same name.
func (p *process) name() string {
	if p.index == 0 && p.incarnation == 0 {
		return "sim"
	}
	return fmt.Sprintf("sim%d.%d", p.index, p.incarnation)
}

// boot starts a process.
func (sim *simulation) boot(ctx context.Context, p *process) error {
	var err error
	if p.engine, err = engine.New(sim.client, sim.options(p)); err != nil {
		return err
	}
	p.engine.Definitions.Parse = sim.parse
	p.services = nil
	for _, s := range p.engine.Services() {
		t := sim.consumerGroup(s)
		it := newService(ctx, p, t, s)
		if p.incarnation > 0 || s.Kind == housekeeping || sim.cfg.Waits > 0 && t.firesTimers() {
			sim.wakeService(it) // other processes may have left messages to claim; or it has to block in a read
		}
		t.services, p.services = append(t.services, it), append(p.services, it)
	}
	sim.services = append(sim.services, p.services...)
	return nil
}

// options returns the engine's options for the simulation: nothing blocks.
func (sim *simulation) options(p *process) engine.Options {
	opts := engine.Defaults()
	opts.Process = p.name()
	opts.Tenants = sim.tenants
	opts.Workers, opts.Executors, opts.Timers = 1, sim.cfg.Executors, 1
	if !sim.cfg.callsOut() {
		opts.Executors = 1 // it has nothing to do
	}
	opts.Block(0)
	opts.Cluster = sim.cfg.Cluster
	opts.Embedded = sim.memory == nil // as in flunq dev
	opts.ExtraExecutors, opts.Descendants, opts.Open, opts.RedisPercent = 0, 0, 0, 0
	if sim.lazy {
		opts.Worker.Reclaim, opts.Executor.Reclaim, opts.Timer.Reclaim = false, false, false // no process crashes
	}
	if sim.cfg.Plan != nil {
		batch := sim.cfg.batch()
		opts.Worker.Batch, opts.Executor.Batch, opts.Timer.Batch = batch, batch, batch
		opts.Activity = sim.checkActivity
		const every, limit = 8, 12 // one simulation in eight handles few items at a time
		opts.Chunk, opts.Snapshots = sim.cfg.chunkSize("chunk", every, limit), sim.cfg.chunkSize("snapshots", every, limit)
		opts.Fires = cmp.Or(sim.cfg.chunkSize("fires", every, limit), opts.Fires)
		opts.Workers, opts.Timers = sim.cfg.serviceCount("workers"), sim.cfg.serviceCount("timers")
		if waits := sim.cfg.Waits; waits > 0 { // a blocked timer service must be the only one of its process: two would block each other
			opts.Timers, opts.Timer.Block, opts.MaxSleep, opts.LongRead = 1, waits, waits, waits
		}
	}
	opts.Secrets, opts.Version, opts.Remote, opts.Limits = sim.cfg.Secrets, sim.cfg.Version, sim.cfg.Remote, sim.cfg.Limits
	opts.Observe, opts.Retention = sim.observe, sim.retention
	opts.Transport = sim.outward
	if sim.cfg.Scripted.Breakers != nil {
		opts.Breakers = sim.cfg.Scripted.Breakers()
	}
	return opts
}

// serviceCount returns the number of services of a kind in each process of a search's
// simulation: one, or sometimes two, which share their process's buffer.
func (cfg Config) serviceCount(kind string) int {
	const every = 4 // one simulation in four has two
	if cfg.Processes > 1 && Choice(cfg.Seed, kind)%every == 1 {
		return 2
	}
	return 1
}

// chunkSize returns how many items an operation handles at a time: usually 0, which means all,
// but in one simulation out of "every" a number from 1 to limit.
func (cfg Config) chunkSize(what string, every, limit uint64) int {
	if n := Choice(cfg.Seed, what); n%every == 1 {
		return int(n/every%limit) + 1
	}
	return 0
}

// batch returns how many events the services of a search's simulation read at a time: the
// default, or few enough that simultaneous events go to different services. Simulations with many
// executions and no faults use the default more often, since some of their executions race
// anyway.
func (cfg Config) batch() int {
	usual := engine.Defaults().Worker.Batch
	batches := []int{usual, 1, usual, 2}
	if cfg.harmless() && cfg.Executions > 1 {
		batches = []int{usual, 1, usual, 2, usual, 2, usual, usual}
	}
	return batches[Choice(cfg.Seed, "batch")%uint64(len(batches))]
}

// parse returns the definitions that were parsed before the simulation began, since
// otherwise each process of each simulation would parse them again.
func (sim *simulation) parse(workflow string, text []byte) (*dsl.Definition, error) {
	for _, def := range append(sim.cfg.Definitions(), sim.cfg.foreignDefinitions...) {
		if bytes.Equal(def.Source, text) {
			return def, nil
		}
	}
	def, _, err := dsl.Parse(workflow, text)
	return def, err
}

// crash kills a process: nothing that it sends afterwards arrives.
func (sup *supervisor) crash(p *process, faults []Fault) {
	p.dead, sup.deadServices = true, true
	for _, f := range faults {
		if f.Kind == CrashBefore || f.Kind == CrashAfter {
			p.restartAt = later(p.restartAt, sup.clock.now.Add(f.Amount))
		}
	}
	sup.wakeAll()
}

// freeze suspends a process for a while.
func (sup *supervisor) freeze(p *process, amount time.Duration) {
	p.frozen = later(p.frozen, sup.clock.now.Add(amount))
	sup.wakeAll()
}

// wakeAll wakes all services to look for messages to claim.
func (sup *supervisor) wakeAll() {
	for _, s := range sup.services {
		sup.wakeService(s)
	}
}

// removeDead removes the services of dead processes.
func (sup *supervisor) removeDead() {
	if !sup.deadServices {
		return
	}
	sup.deadServices = false
	sup.finishStops()
	for _, p := range sup.processes {
		if !p.dead || len(p.services) == 0 {
			continue
		}
		for _, s := range p.services {
			sup.countCommands(s)
			sup.current = s // the commands that it sends while it stops must not arrive
			s.stop()
			sup.current = nil
		}
		gone := func(s *service) bool { return s.process == p }
		sup.services, sup.active = slices.DeleteFunc(sup.services, gone), slices.DeleteFunc(sup.active, gone)
		for _, g := range sup.groups {
			g.services = slices.DeleteFunc(g.services, gone)
		}
		p.services = nil
	}
}

// countCommands records how many commands a service has sent.
func (sup *supervisor) countCommands(s *service) {
	if s.commands > 0 {
		sup.sent[s.Name] = s.commands
	}
}

// reboot restarts the processes that are due.
func (sim *simulation) reboot(ctx context.Context) error {
	sim.removeDead()
	for i, p := range sim.processes {
		if !p.dead || p.restartAt.After(sim.clock.now) {
			continue
		}
		next := &process{index: p.index, incarnation: p.incarnation + 1}
		sim.processes[i] = next
		if err := sim.boot(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// grace is how long a stopping process may take to finish what it has begun, as in the engine.
const grace = 5 * time.Second

// replaceable reports whether another process can take over the work of p.
func (sup *supervisor) replaceable(p *process) bool {
	return slices.ContainsFunc(sup.processes, func(other *process) bool { return other != p && !other.dead && !other.stopping })
}

// requestStop asks a process to stop; another one replaces it after away.
func (sup *supervisor) requestStop(p *process, away time.Duration) {
	if p.stopping {
		return
	}
	p.stopping, p.grace, sup.deadServices = true, sup.clock.now.Add(grace), true
	p.restartAt = later(p.restartAt, sup.clock.now.Add(away))
	p.engine.Close()
}

// finishStops ends the stopping processes that have finished what they had begun. They release
// their other messages.
func (sup *supervisor) finishStops() {
	for _, p := range sup.processes {
		if !p.stopping || p.dead || sup.clock.now.Before(p.frozen) {
			continue
		}
		sup.deadServices = true
		if slices.ContainsFunc(p.services, func(s *service) bool {
			calls := s.sleeping || s.calling
			return !s.resting() && (!calls || sup.clock.now.Before(p.grace))
		}) {
			continue
		}
		sup.asSimulation(func(ctx context.Context) error {
			if err := p.engine.Release(ctx); err != nil {
				return err
			}
			return sup.checkReleased(ctx, p)
		})
		p.dead = true
		sup.wakeForUnread()
		sup.wakeReaders()
	}
}

// wakeReaders wakes the services that wait for messages, to claim what was released; in
// production they look once a second. The timer service needs no waking: the holder of its
// lease passes it on.
func (sup *supervisor) wakeReaders() {
	for _, s := range sup.services {
		if s.consumerGroup.handles != nil && !s.consumerGroup.firesTimers() {
			sup.wakeService(s)
		}
	}
}

// wakeForUnread wakes the groups that have unread events, because the services that were woken
// for these events may be gone.
func (sup *supervisor) wakeForUnread() {
	for _, g := range sup.groups {
		if g.handles == nil || len(g.services) == 0 {
			continue
		}
		if unread, _ := sup.open(g, ""); unread > 0 {
			sup.notify(g)
		}
	}
}

// checkReleased checks that a stopping process has released its messages. A lost reply excuses
// it: it did not know of all its messages.
func (sup *supervisor) checkReleased(ctx context.Context, p *process) error {
	if slices.ContainsFunc(sup.injected, func(s InjectedFault) bool { return s.Kind == DropReply }) {
		return nil
	}
	for _, g := range sup.groups {
		if g.handles == nil {
			continue
		}
		for _, stream := range sup.streams {
			args := &redis.XPendingExtArgs{Stream: stream, Group: g.redisName(), Start: "-", End: "+", Count: 1000}
			pending, err := sup.client.XPendingExt(ctx, args).Result()
			if err != nil {
				return err
			}
			for _, entry := range pending {
				if consumerOf(entry.Consumer) == p.name() && entry.Idle < releasedIdle {
					sup.report("a stopping process releases its messages", "", "entry %s of the %s is still held by %s", entry.ID, g.redisName(), entry.Consumer)
				}
			}
		}
	}
	return nil
}
