package sim

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
	"flunq.io/flunq/sim/mini"
	"flunq.io/flunq/sim/resp"
)

// inProcess is a Redis inside this process. It executes commands on the caller's goroutine, and
// its clock stands still until it is set.
type inProcess interface {
	// Execute executes a command and appends its reply.
	Execute(args []string, replies []byte) ([]byte, error)
	SetTime(now time.Time)
	// Preload makes scripts available by their SHA1, as if they were loaded already.
	Preload(sources map[string]string)
	// Open counts the entries of a stream that match: those that a group has not read, and those
	// that a consumer of the group, or any if it is "", has read and not acknowledged.
	Open(stream, group, consumer string, matches func(fields []string) bool) (unread, pending int)
	Close()
}

// opener starts a Redis for a simulation. added is called for each new entry of a stream, and for
// each command that adds to a sorted set.
type opener func(start time.Time, added func(key string, fields []string)) (inProcess, error)

// openRedis starts the Redis of the simulation: miniredis, or for faults and invariants the
// simulator's own, which reports more of what happens in it.
func (sim *simulation) openRedis() error {
	open := sim.cfg.redis
	switch {
	case open != nil:
	case sim.cfg.Plan == nil && sim.cfg.Bug == nil:
		open = openMini
	default:
		open = openOwn
	}
	var err error
	if sim.redis, err = open(sim.cfg.Start, sim.added); err != nil {
		return err
	}
	sim.memory, _ = sim.redis.(*memory.Server)
	return nil
}

func openMini(start time.Time, added func(key string, fields []string)) (inProcess, error) {
	m, err := mini.New()
	if err != nil {
		return nil, err
	}
	m.SetTime(start)
	m.Added = added
	return m, nil
}

func openOwn(start time.Time, added func(key string, fields []string)) (inProcess, error) {
	m := memory.New(start)
	m.Added = added
	return m, nil
}

// added is called for each new stream entry or sorted-set member in Redis, and wakes the
// services that it concerns.
func (sim *simulation) added(key string, fields []string) {
	switch {
	case slices.Contains(sim.streams, key):
		sim.last = key
		sim.wakeFor(typeOf(fields))
		sim.recordStrayTimer(fields)
	case slices.Contains(sim.timers, key):
		for _, g := range sim.groups {
			// The service that sets a timer knows about it. Other services learn of it
			// from an event, which services of a lazy simulation do not read.
			if self := sim.current != nil && sim.current.consumerGroup == g; sim.lazy && g.firesTimers() && !self {
				sim.notify(g)
			}
		}
	default:
		if sim.cfg.Plan != nil {
			sim.recordEnd(key, fields)
		}
	}
}

// connect gives the simulation a client. The simulator's own Redis answers it without a connection,
// which is faster.
func (sim *simulation) connect() {
	sim.client = wire.Passive(func() net.Conn { return resp.NewConn(sim.redis.Execute) })
	sim.client.AddHook(memory.Hook{
		Send:   sim.send,
		Before: sim.await,
		Answer: func(cmd redis.Cmder) bool { return sim.memory != nil && sim.memory.Answer(cmd) },
	})
}

// send executes what a service, or the simulation itself, sends to Redis. Before that, it lets
// another service have a turn.
func (sim *simulation) send(ctx context.Context, cmds []redis.Cmder, perform func() error) error {
	for _, cmd := range cmds {
		if err := sim.sendBugCommands(ctx, cmd); err != nil {
			return err
		}
	}
	s := sim.current
	if s == nil {
		return perform()
	}
	if s.process.dead {
		return errCrashed
	}
	if !s.pause() {
		return ErrStopped
	}
	s.commands++
	var faults []Fault
	if sim.cfg.Plan != nil {
		faults = sim.draw(s, s.commands, func(k FaultKind) bool { return k != CallLost })
	}
	for _, f := range faults {
		sim.inject(f, commandNames(cmds))
	}
	// A frozen process sends its command when it continues.
	for sim.clock.now.Before(s.process.frozen) {
		if !s.pause() {
			return ErrStopped
		}
	}
	var err error
	if s.process.dead || len(faults) > 0 || sim.clock.now.Before(sim.outage) {
		err = sim.faulty(perform, faults)
	} else {
		if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Name() == "xreadgroup" }) {
			sim.wakeSiblings(s)
		}
		for _, cmd := range cmds {
			sim.isolated.checkMark(&sim.shared, cmd)
		}
		err = perform()
	}
	if err == nil {
		for _, cmd := range cmds {
			sim.recordLost(cmd)
		}
	}
	return err
}

// await blocks a read until there is something to read, or until its timeout.
func (sim *simulation) await(cmd redis.Cmder) error {
	s := sim.current
	if s == nil || sim.cfg.Waits == 0 || !s.consumerGroup.firesTimers() || cmd.Name() != "xreadgroup" {
		return nil
	}
	args, block := cmd.Args(), int64(0)
	for i, arg := range args {
		if arg == "block" {
			block, _ = args[i+1].(int64)
		}
	}
	until := sim.clock.now.Add(time.Duration(block) * time.Millisecond)
	for sim.clock.now.Before(until) && !sim.unread(s) {
		s.waits, s.wake = true, until
		if !s.pause() {
			return ErrStopped
		}
		s.waits, s.woken = false, false
		switch {
		case s.process.dead:
			return errCrashed
		case sim.clock.now.Before(sim.outage):
			return errLost
		}
	}
	return nil
}

// unread reports whether the group of a service has unread events.
func (sim *simulation) unread(s *service) bool {
	return slices.ContainsFunc(sim.streams, func(stream string) bool {
		unread, _ := sim.redis.Open(stream, s.consumerGroup.redisName(), s.consumer, func([]string) bool { return true })
		return unread > 0
	})
}

// ErrStopped ends the services and the calls of a simulation that has ended.
var ErrStopped = errors.New("the simulation has ended")

// Bug is a deliberate engine bug that the simulator's own tests plant to see whether the
// simulator finds it. Script rewrites the source of a Lua script. Ahead returns commands to
// send before a script runs; a fault can be injected at each of them.
type Bug struct {
	Script func(source string) string
	Ahead  func(source string, args []any) [][]any
}

// sendBugCommands sends the commands that a planted bug puts ahead of a script.
func (sim *simulation) sendBugCommands(ctx context.Context, cmd redis.Cmder) error {
	if sim.cfg.Bug == nil || sim.cfg.Bug.Ahead == nil || sim.current == nil {
		return nil
	}
	args := cmd.Args()
	if cmd.Name() != "evalsha" && cmd.Name() != "eval" || len(args) < 3 {
		return nil
	}
	source, _ := args[1].(string)
	if known := sim.memory.Find(source); known != nil {
		source = known.Source
	}
	for _, one := range sim.cfg.Bug.Ahead(source, args[3:]) {
		if err := sim.client.Do(ctx, one...).Err(); err != nil {
			return err
		}
	}
	return nil
}
