package scheduling

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/sim"
)

// target is a service that a process calls.
type target string

const (
	toRedis  target = "Redis"
	toTable  target = "the table"
	toBroker target = "the broker"
	toKafka  target = "Kafka"      // of bridges
	toClient target = "the client" // a request and its reply
)

// The kinds of faults that only this simulation has.
const (
	Slow      sim.FaultKind = "slow"      // a single call takes long
	Throttle  sim.FaultKind = "throttle"  // the table refuses calls for a while
	Rebalance sim.FaultKind = "rebalance" // the broker moves partitions among the consumers
	Forget    sim.FaultKind = "forget"    // Redis loses everything
)

// Faults returns all kinds of faults of the scheduler and of bridges.
func Faults() []sim.FaultKind {
	return []sim.FaultKind{
		sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Duplicate, sim.Delay, sim.Outage, sim.Clock,
		Slow, Throttle, Rebalance, Forget,
	}
}

// kinds returns the faults that are possible at a call.
func (s *simulation) kinds(to target) []sim.FaultKind {
	out := []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply}
	if to != toClient {
		out = append(out, sim.Delay, Slow, sim.Outage, sim.Clock)
	}
	switch {
	case to == toTable:
		out = append(out, Throttle)
	case to == toBroker:
		out = append(out, Rebalance, sim.Duplicate)
	case to == toRedis && s.table != nil:
		out = append(out, Forget)
	}
	return out
}

// The ranges of random amounts.
const (
	longestDelay  = 90 * time.Second // more than a lease
	longestOutage = 20 * time.Second
	longestJump   = 10 * time.Minute
)

// amount draws the duration of a fault from the random number n.
func amount(k sim.FaultKind, n uint64) time.Duration {
	span := func(longest time.Duration) time.Duration {
		longest >>= 2 * (n % 4) // many are short
		return time.Duration(n/4%uint64(longest/time.Millisecond)+1) * time.Millisecond
	}
	switch k {
	case sim.Delay, Slow, sim.CrashBefore, sim.CrashAfter: // after a crash: until the process restarts
		return span(longestDelay)
	case sim.Outage, Throttle:
		return span(longestOutage)
	case sim.Clock:
		return span(longestJump)
	default:
		return 0
	}
}

// Random faults: one of each kind in faultRate calls, or in idleRate calls of actors that search for
// work, which are most; and at most maxFaults in one run.
const (
	faultRate = 40
	idleRate  = 600
	maxFaults = 8
)

// draw returns the faults of the current actor's count-th call.
func (s *simulation) draw(a *actor, count uint64, to target) []sim.Fault {
	var out []sim.Fault
	kinds := s.kinds(to)
	for _, f := range s.plan.Faults {
		if f.Service == a.name && f.Command == count && slices.Contains(kinds, f.Kind) {
			out = append(out, f)
		}
	}
	if !s.plan.Random || s.drawn >= maxFaults {
		return out
	}
	rate := uint64(faultRate)
	if a.idle {
		rate = idleRate
	}
	for _, kind := range kinds {
		if n := s.chance("fault "+string(kind)+" "+a.name, count); n%rate == 0 {
			s.drawn++
			out = append(out, sim.Fault{Kind: kind, Service: a.name, Command: count, Amount: amount(kind, n>>20)})
		}
	}
	return out
}

// call performs a call of the current actor with its faults. what describes the call.
func (s *simulation) call(to target, what string, perform func() error) error {
	a := s.current
	if a == nil {
		return perform()
	}
	if a.doing != "" {
		what = a.doing + ": " + what
	}
	if a.over || a.process.dead || !a.yield(struct{}{}) || a.process.dead {
		return errCrashed
	}
	if limit := uint64(s.setting.Latency); limit > 0 {
		took := time.Duration(s.chance("latency "+a.name, s.calls[a.name])%limit) / 2
		if !s.sleep(a, took.Truncate(10*time.Microsecond)) || a.process.dead {
			return errCrashed
		}
	}
	s.calls[a.name]++
	if s.plan.points {
		s.points = append(s.points, point{a.name, s.calls[a.name], s.kinds(to)})
	}
	faults := s.draw(a, s.calls[a.name], to)
	fault := func(kind sim.FaultKind) bool {
		return slices.ContainsFunc(faults, func(f sim.Fault) bool { return f.Kind == kind })
	}
	for _, f := range faults {
		if !s.inject(a, f, to, what) {
			return errCrashed
		}
	}
	s.note(a.name, what)
	for s.now.Before(a.process.frozen) {
		if !a.yield(struct{}{}) || a.process.dead {
			return errCrashed
		}
	}
	switch {
	case a.process.dead || fault(sim.CrashBefore):
		return errCrashed
	case s.now.Before(s.outages[to]) && to == toBroker:
		return fmt.Errorf("%w: %w", schedule.ErrUnreachable, errLost)
	case s.now.Before(s.outages[to]):
		return &net.OpError{Op: "dial", Net: "tcp", Err: errLost}
	case fault(sim.DropRequest):
		return errLost
	}
	err := perform()
	if fault(sim.Duplicate) {
		err = perform()
	}
	switch {
	case a.process.dead:
		return errCrashed
	case fault(sim.CrashAfter):
		s.crash(a.process, faults)
		return errCrashed
	case fault(sim.DropReply):
		return errLost
	}
	return err
}

// inject applies the part of a fault that precedes the call. It returns false if the actor has
// ended.
func (s *simulation) inject(a *actor, f sim.Fault, to target, what string) bool {
	p := a.process
	s.injected = append(s.injected, f)
	s.log(a.name, what+": "+faultText(f, to), a.events...)
	if n := len(s.story); n > 0 {
		s.story[n-1].Fault = true
	}
	s.checker.fault(s, p, f)
	switch f.Kind {
	case sim.CrashBefore:
		s.crash(p, []sim.Fault{f})
	case sim.Delay:
		p.frozen = later(p.frozen, s.now.Add(f.Amount))
		s.expel(p)
	case Rebalance:
		s.broker.Rebalance(int(s.chance("rebalance "+a.name, f.Command) % 4))
	case Slow:
		return s.sleep(a, f.Amount)
	case sim.Outage, Throttle:
		s.outages[to] = later(s.outages[to], s.now.Add(f.Amount))
	case sim.Clock:
		p.skew += f.Amount
	case Forget:
		s.redis.Do("FLUSHALL")
		s.forgotten = true
	default: // when the call is performed
	}
	return true
}

// faultText describes a fault.
func faultText(f sim.Fault, to target) string {
	switch f.Kind {
	case sim.CrashBefore:
		return "the process crashes before this reaches " + string(to)
	case sim.CrashAfter:
		return "the process crashes before it receives the reply of " + string(to)
	case sim.DropRequest:
		return "the request to " + string(to) + " is lost"
	case sim.DropReply:
		return "the reply of " + string(to) + " is lost"
	case sim.Delay:
		return "the process freezes for " + f.Amount.String()
	case Slow:
		return "the call takes " + f.Amount.String()
	case sim.Outage:
		return string(to) + " is unreachable for " + f.Amount.String()
	case Throttle:
		return string(to) + " refuses all calls for " + f.Amount.String()
	case Rebalance:
		return string(to) + " moves partitions among the consumers"
	case sim.Duplicate:
		return string(to) + " receives this twice"
	case Forget:
		return "Redis loses everything"
	case sim.Clock:
		return "the clock of the process jumps by " + f.Amount.String()
	default:
		return string(f.Kind)
	}
}

// performed makes each command or pipeline a call.
func (s *simulation) performed(_ context.Context, cmds []redis.Cmder, perform func() error) error {
	return s.call(toRedis, names(cmds), perform)
}

// tableRequest makes each request to the table a call.
func (s *simulation) tableRequest(_ context.Context, method, _ string, carryOut func()) error {
	return s.call(toTable, strings.ToLower(method)+" of the table", func() error {
		carryOut()
		return nil
	})
}

// lag returns how long the table's index lags behind the current write.
func (s *simulation) lag() time.Duration {
	if s.setting.Lag == 0 || s.current == nil {
		return 0
	}
	n := s.chance("lag "+s.current.name, s.calls[s.current.name])
	return time.Duration(n % uint64(s.setting.Lag)).Truncate(time.Millisecond)
}

// names returns the distinct names of commands.
func names(cmds []redis.Cmder) string {
	var out []string
	for _, cmd := range cmds {
		if name := cmd.Name(); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}
