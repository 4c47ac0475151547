package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// FaultKind is something that can go wrong in a distributed engine.
type FaultKind string

// The kinds of faults. All but CallLost are injected at a command that a service sends to
// Redis.
const (
	CrashBefore   FaultKind = "crash-before" // the process dies before Redis receives the command
	CrashAfter    FaultKind = "crash-after"  // the process dies after Redis has executed the command
	DropRequest   FaultKind = "drop-request" // the command never reaches Redis
	DropReply     FaultKind = "drop-reply"   // Redis executes the command, but the reply is lost
	Duplicate     FaultKind = "dup"          // the event that was published last is published again
	Delay         FaultKind = "delay"        // the process freezes for a while, then continues
	StopRequested FaultKind = "stop"         // the process shuts down gracefully, and another one starts later
	Outage        FaultKind = "outage"       // Redis is unreachable for a while
	Clock         FaultKind = "clock"        // the clock of Redis jumps ahead
	CallLost      FaultKind = "http"         // the call is carried out, and its response is lost
)

// Faults returns all kinds of faults of workflows.
func Faults() []FaultKind {
	return []FaultKind{CrashBefore, CrashAfter, DropRequest, DropReply, Duplicate, Delay, StopRequested, Outage, Clock, CallLost}
}

// Fault is one fault, injected into a service at its n-th command, or its n-th call for
// CallLost, counted from the start of its process.
type Fault struct {
	Kind    FaultKind     `json:"kind"`
	Service string        `json:"service"`
	Command uint64        `json:"command"`
	Amount  time.Duration `json:"amount,omitempty"` // a duration, or how far the clock jumps
}

// Plan lists the faults of a simulation.
type Plan struct {
	Faults []Fault     // explicit faults
	Kinds  []FaultKind // kinds of random faults, which depend on the seed
	Rate   uint64      // one in Rate commands, for each kind; 200 if 0
	Most   int         // the maximum number of random faults in one run; 12 if 0
}

// Harmless reports whether the plan has no faults.
func (p *Plan) Harmless() bool { return p == nil || len(p.Faults) == 0 && len(p.Kinds) == 0 }

// InjectedFault is a fault that was injected.
type InjectedFault struct {
	Fault
	At      time.Time // virtual
	Event   int       // number of history events so far
	Doing   string    // the command, in words
	Process int
	Task    string // the execution and task run of the call, "" for commands

	relieved bool // other processes could take over from a process that was asked to stop
}

// Cost is how long a fault can delay an execution: its own duration plus Recovery. A
// process that stops gracefully hands over its work immediately.
func (f InjectedFault) Cost() time.Duration {
	if f.relieved {
		return 2 * grace
	}
	return f.Amount + Recovery
}

// Recovery is how long it can take other processes to claim and perform the work of a
// crashed one.
const Recovery = 90 * time.Second

// duration returns the duration of a single fault and the longest duration of a random one; for
// Clock, how far the clock jumps. Some random faults are shorter than a lease, some longer.
func (k FaultKind) duration() (single, longest time.Duration) {
	switch k {
	case Delay, CrashBefore, CrashAfter: // after a crash: until the process restarts
		return 45 * time.Second, 75 * time.Second
	case Outage:
		return 20 * time.Second, 20 * time.Second
	case Clock:
		return time.Minute, time.Minute
	case StopRequested:
		return 5 * time.Minute, 10 * time.Minute
	default:
		return 0, 0
	}
}

// Single returns the duration of a single fault: freezes last longer than a lease.
func (k FaultKind) Single() time.Duration {
	single, _ := k.duration()
	return single
}

// amount returns the duration of a random fault; n is a random number.
func (k FaultKind) amount(n uint64) time.Duration {
	_, longest := k.duration()
	if longest == 0 {
		return 0
	}
	return time.Duration(n%uint64(longest/time.Millisecond)+1) * time.Millisecond
}

// commandNames describes commands by their names.
func commandNames(cmds []redis.Cmder) string {
	var names []string
	for _, cmd := range cmds {
		names = append(names, cmd.Name())
	}
	return strings.Join(names, ", ")
}

// injector injects the faults of the plan.
type injector struct {
	supervisor

	drawn  int               // number of random faults
	called map[string]uint64 // number of calls of each executor
}

// draw returns the faults to inject into a service at its count-th command or call, of the
// kinds that are possible there: those listed in the plan and random ones. Each depends only
// on the seed and its own place, so removing one fault changes no other.
func (in *injector) draw(s *service, count uint64, can func(FaultKind) bool) []Fault {
	p := in.cfg.Plan
	if p == nil {
		return nil
	}
	var out []Fault
	for _, f := range p.Faults {
		if f.Service == s.Name && f.Command == count && can(f.Kind) {
			out = append(out, f)
		}
	}
	for _, kind := range p.Kinds {
		if !can(kind) || in.drawn >= cmp.Or(p.Most, 12) {
			continue
		}
		n := Draw(in.cfg.Seed, "fault "+string(kind)+" "+s.Name, count)
		if n%cmp.Or(p.Rate, 200) == 0 && in.mayInject(s, kind) {
			in.drawn++
			out = append(out, Fault{kind, s.Name, count, kind.amount(n >> 20)})
		}
	}
	return out
}

// maxDeliveries is the number of deliveries of one message after which random faults hit
// no process. The engine rightly dead-letters a message that has crashed many processes.
const maxDeliveries = 4

// mayInject reports whether a random fault may be injected into a service now. Faults must not
// exceed what the engine promises to survive.
func (in *injector) mayInject(s *service, kind FaultKind) bool {
	switch kind {
	case StopRequested:
		return !s.process.stopping && (len(in.processes) == 1 || in.replaceable(s.process))
	case CrashBefore, CrashAfter, Delay, Outage, Clock:
		return !slices.ContainsFunc(in.streams, func(stream string) bool { return in.memory.Delivered(stream) >= maxDeliveries })
	default:
		return true
	}
}

// callFaults returns the faults of a service's next call, listed or random.
func (in *injector) callFaults(s *service, task string) []Fault {
	s.calls++
	in.called[s.Name] = s.calls
	faults := in.draw(s, s.calls, func(k FaultKind) bool { return k == CallLost })
	for _, f := range faults {
		in.inject(f, "call")
		in.injected[len(in.injected)-1].Task = task
	}
	return faults
}

// The errors that a service sees.
var (
	errLost    = errors.New("the connection was lost")
	errCrashed = errors.New("the process has crashed")
)

// inject applies the part of a fault that precedes the command, and records the fault.
func (in *injector) inject(f Fault, doing string) {
	p := in.current.process
	relieved := f.Kind == StopRequested && in.replaceable(p)
	in.injected = append(in.injected, InjectedFault{Fault: f, At: in.clock.now, Event: in.events, Doing: doing, Process: p.index, relieved: relieved})
	if in.cfg.Injected != nil {
		in.cfg.Injected(in.injected[len(in.injected)-1])
	}
	switch f.Kind {
	case CrashBefore, CrashAfter, DropRequest, DropReply, Duplicate, CallLost: // applied when the command or the call is executed
	case Delay:
		in.freeze(p, f.Amount)
	case StopRequested:
		in.requestStop(p, f.Amount)
	case Outage:
		in.outage = later(in.outage, in.clock.now.Add(f.Amount))
	case Clock:
		in.clock.now = in.clock.now.Add(f.Amount)
		in.memory.SetTime(in.clock.now)
	}
}

// faulty executes commands subject to their faults.
func (in *injector) faulty(perform func() error, faults []Fault) error {
	has := func(kind FaultKind) bool {
		return slices.ContainsFunc(faults, func(f Fault) bool { return f.Kind == kind })
	}
	s := in.current
	if s.process.dead {
		return errCrashed
	}
	if has(CrashBefore) {
		in.crash(s.process, faults)
		return errCrashed
	}
	if has(DropRequest) || in.clock.now.Before(in.outage) {
		return errLost
	}
	err := perform()
	if has(Duplicate) {
		in.republish()
	}
	if has(CrashAfter) {
		in.crash(s.process, faults)
		return errCrashed
	}
	if has(DropReply) {
		return errLost
	}
	return err
}

// republish publishes the latest event once more, like a producer that did not receive the
// reply.
func (in *injector) republish() {
	in.asSimulation(func(ctx context.Context) error {
		key := in.last
		entries, err := in.client.XRevRangeN(ctx, key, "+", "-", 1).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		var values []any
		for _, name := range slices.Sorted(maps.Keys(entries[0].Values)) {
			values = append(values, name, entries[0].Values[name])
		}
		return in.client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: values}).Err()
	})
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// writtenFault is the JSON form of a Fault.
type writtenFault struct {
	Kind    FaultKind `json:"kind"`
	Service string    `json:"service"`
	Command uint64    `json:"command"`
	Amount  string    `json:"amount,omitempty"`
}

// MarshalJSON writes the duration in Go's notation.
func (f Fault) MarshalJSON() ([]byte, error) {
	w := writtenFault{Kind: f.Kind, Service: f.Service, Command: f.Command}
	if f.Amount > 0 {
		w.Amount = f.Amount.String()
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes, and rejects unknown members.
func (f *Fault) UnmarshalJSON(text []byte) error {
	var w writtenFault
	if err := event.DecodeStrictly(text, &w); err != nil {
		return fmt.Errorf("read a fault: %w", err)
	}
	*f = Fault{Kind: w.Kind, Service: w.Service, Command: w.Command}
	if w.Amount == "" {
		return nil
	}
	var err error
	if f.Amount, err = time.ParseDuration(w.Amount); err != nil || f.Amount < 0 {
		return fmt.Errorf("read a fault: amount %q, want a duration such as 45s", w.Amount)
	}
	return nil
}

// CheckKinds returns an error if one of the faults is of another kind.
func CheckKinds(faults []Fault, kinds []FaultKind) error {
	for _, f := range faults {
		if !slices.Contains(kinds, f.Kind) {
			return fmt.Errorf("a fault of the kind %q, want one of %v", f.Kind, kinds)
		}
	}
	return nil
}
