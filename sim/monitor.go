package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/memory"
)

// monitor checks the invariants of messages, leases, removals and calls while the simulation
// runs.
type monitor struct {
	injector
	records

	retention   engine.Retention
	refused     refused
	strayTimers []string      // see Trial
	past        []publication // trimmed entries
	rekeyed     []KeyMisuse
}

// records is the monitor's memory.
type records struct {
	endedAt       map[string]time.Time // when each execution ended; zero while it runs
	removals      map[string]bool      // executions that were removed
	disowned      map[string]bool      // messages that a process knows to be owned by another one
	performed     map[string]bool      // requests whose call a consumer has performed; false if it may perform it again, because the lease has lapsed
	isolated      isolation
	idempotency   map[string]string        // the keys of task runs, and the task runs of keys
	ownKeys       map[string]bool          // tasks that set their own key, see ownKey
	checkedStates map[string]*checkedState // by execution, see checkNeeds
}

func newRecords() records {
	return records{
		endedAt: map[string]time.Time{}, removals: map[string]bool{}, disowned: map[string]bool{}, performed: map[string]bool{},
		isolated:    isolation{map[handler]map[handled]int{}, map[string]int{}, map[string]int{}},
		idempotency: map[string]string{}, ownKeys: map[string]bool{}, checkedStates: map[string]*checkedState{},
	}
}

// watch subscribes the invariants to what happens to messages in Redis.
func (mon *monitor) watch() {
	mon.memory.Observer.Claimed = mon.checkClaim
	mon.memory.Observer.Acknowledged = mon.checkAcknowledged
	mon.memory.Observer.Deleted = mon.checkRemoved
	mon.memory.Observer.Trimmed = mon.recordTrimmed
	mon.memory.Observer.Lost = func(group, id string) {
		mon.report("no entry is removed while a group still needs it", "", "entry %s is gone, but %s had not acknowledged it", id, group)
	}
}

// checkClaim checks that a message is claimed neither before its lease has ended nor long
// after.
func (mon *monitor) checkClaim(e memory.Entry, to string, idle time.Duration) {
	delete(mon.disowned, held(to, e.Stream, e.ID))
	mon.performed[held(to, e.Stream, e.ID)] = false
	if idle < 24*time.Hour { // the engine releases an entry by making it idle for a day
		mon.isolated.silent[crashKey(e.Stream, e.Group, e.ID)]++
	}
	if idle < releasedIdle {
		mon.checkSilent(e, to)
	}
	if lease := engine.Defaults().Lease; idle < lease {
		mon.report("a message is claimed only after its lease", "", "entry %s of the %s, which %s held, went to %s after only %v idle", e.ID, e.Group, e.Owner, to, idle)
	} else if idle > lease+promptly && idle < releasedIdle && mon.couldClaim(e) {
		mon.report("an abandoned message is claimed soon after its lease", "", "entry %s of the %s, which %s held, went to %s only after %v idle", e.ID, e.Group, e.Owner, to, idle)
	}
}

// checkSilent checks that the process from which an entry is claimed has crashed, was frozen,
// or may not know of the entry because a reply of Redis was lost.
func (mon *monitor) checkSilent(e memory.Entry, to string) {
	i := slices.IndexFunc(mon.processes, func(p *process) bool { return p.name() == consumerOf(e.Owner) })
	if i < 0 || mon.processes[i].dead || mon.processes[i].stopping {
		return
	}
	for _, s := range mon.injected {
		if s.Kind == Outage || s.Kind == Clock || s.Process == i && s.Kind != CallLost && s.Kind != DropRequest {
			return
		}
	}
	mon.report("no message is claimed from a live process", "", "entry %s of the %s, which %s held, went to %s", e.ID, e.Group, e.Owner, to)
}

// promptly is how late an idle process may claim a message. A message whose idle time
// exceeds releasedIdle was released.
const (
	promptly     = 10 * time.Second
	releasedIdle = time.Hour
)

// couldClaim reports whether some process was able to claim an entry the whole time: not all
// processes have crashed, and none froze.
func (mon *monitor) couldClaim(e memory.Entry) bool {
	if mon.cfg.Waits > 0 && strings.HasPrefix(e.Group, "timer") {
		return false
	}
	for _, s := range mon.injected {
		if !slices.Contains([]FaultKind{CrashBefore, CrashAfter, DropReply, Duplicate}, s.Kind) {
			return false
		}
	}
	return !strings.HasPrefix(e.Group, "executor") && // all executors may be busy with calls
		slices.ContainsFunc(mon.processes, func(p *process) bool { return p.incarnation == 0 && !p.dead })
}

// checkAcknowledged checks that a message is acknowledged by the process that holds it. An
// event that does not concern a group is acknowledged by whichever process read it.
func (mon *monitor) checkAcknowledged(e memory.Entry) {
	s := mon.current
	if s == nil || e.Fields == nil || typeOf(e.Fields) == event.TimerSet { // TimerSet carries nothing that could be lost
		return
	}
	if own := s.process.name(); consumerOf(e.Owner) != own && s.consumerGroup.handles != nil && s.consumerGroup.handles(typeOf(e.Fields)) {
		mon.report("only the owner of a message acknowledges it", "", "entry %s of the %s was held by %s, but %s acknowledged it", e.ID, e.Group, e.Owner, s.Name)
	}
}

// recordTrimmed keeps an entry that leaves its stream.
func (mon *monitor) recordTrimmed(key, entry string, fields []string) {
	at := slices.Index(mon.streams, key)
	if at < 0 {
		return
	}
	if p := publicationOf(entry, fields); p.Execution != "" {
		p.Tenant, p.Execution = mon.tenants[at], mon.label(mon.tenants[at], p.Execution)
		mon.past = append(mon.past, p)
	}
}

// consumerOf returns the process of a consumer.
func consumerOf(name string) string {
	_, rest, _ := strings.Cut(name, "-")
	process, _, _ := strings.Cut(rest, "-")
	return process
}

// recordLost records the messages that a renewal reported as owned by another process.
func (mon *monitor) recordLost(cmd redis.Cmder) {
	s := mon.current
	reply, ok := cmd.(*redis.Cmd)
	if s == nil || s.consumerGroup.group != renewal || mon.cfg.Plan == nil || !ok {
		return
	}
	const key, consumer = 3, 5 // indexes among the arguments of a script with one key
	lost, err := reply.StringSlice()
	if args := cmd.Args(); err == nil && len(args) > consumer {
		for _, id := range lost {
			mon.disowned[held(fmt.Sprint(args[consumer]), fmt.Sprint(args[key]), id)] = true
		}
	}
}

// held returns a map key for a message held by a consumer.
func held(consumer, stream, id string) string { return consumer + " " + stream + " " + id }

// checkDisowned checks that an executor does not finish a call after it learned that another
// process owns the request.
func (mon *monitor) checkDisowned(a delivery.Activity) {
	m := a.Message
	if a.Service != "executor" {
		return
	}
	key := held(a.Consumer, mon.keys.Stream(m.Tenant), m.ID)
	switch a.What { //nolint:exhaustive // the others do not matter here
	case delivery.Began: // it may have been read before another process owned it
		delete(mon.disowned, key)
	case delivery.Claimed: // its lease has lapsed, even if it was the consumer's own
		mon.performed[key] = false
	case delivery.Performed:
		if m.Event.Type != event.TaskRequested || a.Task != "call" {
			return
		}
		if mon.disowned[key] {
			mon.report("a call is not finished once another process owns it", m.Event.Execution, "%s has %s %s, although it knew that another process owned it", a.Consumer, a.What, m.Event.ID)
		}
		once, known := mon.performed[key]
		if once {
			mon.report("a call is repeated only with a reason", m.Event.Execution, "%s performed %s twice, although its lease never lapsed", a.Consumer, m.Event.ID)
		}
		if !known {
			mon.performed[key] = true
		}
	}
}
