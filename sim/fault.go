package sim

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// FaultKind is something that goes wrong in a distributed engine.
type FaultKind string

// The kinds of faults. All but CallLost strike at a command that a service
// sends to Redis.
const (
	CrashBefore   FaultKind = "crash-before" // its process dies, and the command with it
	CrashAfter    FaultKind = "crash-after"  // … once Redis has carried it out
	DropRequest   FaultKind = "drop-request" // it never reaches Redis
	DropReply     FaultKind = "drop-reply"   // Redis carries it out, and nobody hears of it
	Duplicate     FaultKind = "dup"          // the event that was published last comes once more
	Delay         FaultKind = "delay"        // its process stands still for a while, then goes on
	StopRequested FaultKind = "stop"         // its process ends what it has begun, hands back the rest, and another comes
	Outage        FaultKind = "outage"       // Redis is gone for a while
	Clock         FaultKind = "clock"        // the clock of Redis jumps ahead
	CallLost      FaultKind = "http"         // the call is carried out, and its answer lost
)

// Faults are all kinds, in their order.
func Faults() []FaultKind {
	return []FaultKind{CrashBefore, CrashAfter, DropRequest, DropReply, Duplicate, Delay, StopRequested, Outage, Clock, CallLost}
}

// Fault is one thing that goes wrong: at a service's command of a number, counted
// from its process' start.
type Fault struct {
	Kind    FaultKind     `json:"kind"`
	Service string        `json:"service"`
	Command uint64        `json:"command"`
	Amount  time.Duration `json:"amount,omitempty"` // how long, or how far
}

// Plan says what goes wrong in a simulation.
type Plan struct {
	Faults []Fault     // these …
	Kinds  []FaultKind // … and such, as the seed has it
	Rate   uint64      // one in so many commands, of each kind; 200 if 0
	Most   int         // so many by chance in one run; 12 if 0
}

// harmless reports whether nothing goes wrong.
func (p *Plan) harmless() bool { return p == nil || len(p.Faults) == 0 && len(p.Kinds) == 0 }

// Struck is a fault that happened.
type Struck struct {
	Fault
	At      time.Time // virtual
	Event   int       // events of histories that were there by then
	Doing   string    // the command, in words
	Process int
	Task    string // whose call it was, if it was a call: the execution and the run

	relieved bool // others were there to do the work of a process that was told to stop
}

// Cost is how long a fault can hold something up: beyond its own duration for a lease,
// after which the work of whoever was struck is claimed, and the pauses of those that
// are busy elsewhere, see Recovery. Who is told to stop hands over what it has.
func (s Struck) Cost() time.Duration {
	if s.relieved {
		return 2 * grace
	}
	return s.Amount + Recovery
}

// Recovery is how long it can take until others do the work of whoever was struck.
const Recovery = 90 * time.Second

// The ranges that chance draws from: some within a lease, some beyond.
const (
	longestDelay  = 75 * time.Second
	longestOutage = 20 * time.Second
	longestJump   = 60 * time.Second
	longestAway   = 10 * time.Minute
)

// amount is how long or how far a fault of a kind goes, drawn from a number.
func (k FaultKind) amount(n uint64) time.Duration {
	span := func(longest time.Duration) time.Duration {
		return time.Duration(n%uint64(longest/time.Millisecond)+1) * time.Millisecond
	}
	switch k {
	case Delay, CrashBefore, CrashAfter: // after a crash, until somebody starts it again
		return span(longestDelay)
	case Outage:
		return span(longestOutage)
	case Clock:
		return span(longestJump)
	case StopRequested:
		return span(longestAway)
	default:
		return 0
	}
}

// wording is what a service asks of Redis, for people: the commands and the first key.
func wording(cmds []redis.Cmder) string {
	var words []string
	for _, cmd := range cmds {
		words = append(words, cmd.Name())
	}
	return strings.Join(words, ", ")
}

// draw finds the faults that strike a service at a count of its commands or calls,
// of the kinds that can strike there: those of the plan's list, and by chance. Each
// is a function of the seed and its own place, so that leaving one out changes no other.
func (w *simulation) draw(s *service, count uint64, can func(FaultKind) bool) []Fault {
	p := w.cfg.Plan
	if p == nil {
		return nil
	}
	var out []Fault
	for _, f := range p.Faults {
		if f.Service == s.Name && f.Command == count && can(f.Kind) {
			out = append(out, f)
		}
	}
	for i, kind := range p.Kinds {
		if !can(kind) || w.drawn >= cmp.Or(p.Most, 12) {
			continue
		}
		n := mix(w.cfg.Seed, w.luck(s)[i], count)
		if n%cmp.Or(p.Rate, 200) == 0 && w.bears(s, kind) {
			w.drawn++
			out = append(out, Fault{kind, s.Name, count, kind.amount(n >> 20)})
		}
	}
	return out
}

// mostLives is how often a message may have been handed out before chance spares
// whoever has it: what so many have died of is given up, and rightly so.
const mostLives = 4

// bears reports whether a fault by chance may strike a service now: what keeps a promise
// from being kept that the engine does not make may not.
func (w *simulation) bears(s *service, kind FaultKind) bool {
	switch kind {
	case StopRequested:
		return !s.process.leaving && (len(w.processes) == 1 || w.replaceable(s.process))
	case CrashBefore, CrashAfter, Delay, Outage, Clock:
		return !slices.ContainsFunc(w.streams, func(stream string) bool { return w.memory.Delivered(stream) >= mostLives })
	default:
		return true
	}
}

// luck are the hashes that the plan's kinds of faults have for a service.
func (w *simulation) luck(s *service) []uint64 {
	if s.luck == nil {
		for _, kind := range w.cfg.Plan.Kinds {
			s.luck = append(s.luck, hashed("fault "+string(kind)+" "+s.Name))
		}
	}
	return s.luck
}

// What a service sees of a fault.
var (
	errLost    = errors.New("the connection was lost")
	errCrashed = errors.New("the process has died")
)

// strike does what a fault does before the command is carried out, and says what
// becomes of the command itself.
func (w *simulation) strike(f Fault, doing string) {
	p := w.current.process
	relieved := f.Kind == StopRequested && w.replaceable(p)
	w.struck = append(w.struck, Struck{Fault: f, At: w.clock.now, Event: w.events, Doing: doing, Process: p.index, relieved: relieved})
	w.recordFault(w.struck[len(w.struck)-1])
	switch f.Kind {
	case CrashBefore, CrashAfter, DropRequest, DropReply, Duplicate, CallLost: // as the command, or the call, is carried out
	case Delay:
		w.freeze(p, f.Amount)
	case StopRequested:
		w.dismiss(p, f.Amount)
	case Outage:
		w.outage = later(w.outage, w.clock.now.Add(f.Amount))
	case Clock:
		w.clock.now = w.clock.now.Add(f.Amount)
		w.memory.SetTime(w.clock.now)
	}
}

// faulty carries a command out as the faults that strike it have it.
func (w *simulation) faulty(x sending, faults []Fault) error {
	has := func(kind FaultKind) bool {
		return slices.ContainsFunc(faults, func(f Fault) bool { return f.Kind == kind })
	}
	s := w.current
	if s.process.dead {
		return errCrashed
	}
	if has(CrashBefore) {
		w.crash(s.process, faults)
		return errCrashed
	}
	if has(DropRequest) || w.clock.now.Before(w.outage) {
		return errLost
	}
	err := w.perform(x)
	if has(Duplicate) {
		w.again()
	}
	if has(CrashAfter) {
		w.crash(s.process, faults)
		return errCrashed
	}
	if has(DropReply) {
		return errLost
	}
	return err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
