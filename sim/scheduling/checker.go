package scheduling

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/sim"
)

// checker checks the promises of the scheduler. It sees only the responses to clients, and what the
// sinks received and returned.
type checker struct {
	ticks     int // number of observations
	broken    []sim.Violation
	events    map[string]*observed
	faults    []explanation
	published int
	away      bool // a sink was unreachable
}

// observed holds the checker's observations of one event.
type observed struct {
	operations []*operation
	receipts   []receipt
	errors     []string // that the sink returned
	put        bool     // another program put a request on the schedule topic
}

// scheduleKind is the kind of a request to schedule an event.
const scheduleKind schedule.ChangeKind = "schedule"

// operation is a request for an event, as seen by its client. If it takes effect, it does so between
// from and to.
type operation struct {
	id      string // of the event
	kind    schedule.ChangeKind
	content schedule.Content // of a scheduleKind
	replace bool
	due     time.Time // of a Move

	from, to int // ticks; to is math.MaxInt until the client gets a response
	code     schedule.Code
}

// open reports whether an operation may have taken effect.
func (a *operation) open() bool { return a.to == math.MaxInt || a.code == schedule.Success }

// done reports whether an operation has taken effect for certain.
func (a *operation) done() bool { return a.to != math.MaxInt && a.code == schedule.Success }

// openBetween reports whether an operation may have taken effect between two ticks.
func (a *operation) openBetween(from, to int) bool { return a.open() && a.to > from && a.from < to }

// doneBetween reports whether an operation has taken effect for certain between two ticks.
func (a *operation) doneBetween(from, to int) bool { return a.done() && a.from > from && a.to < to }

// some reports whether an operation on the event satisfies a condition.
func (e *observed) some(is func(*operation) bool) bool { return slices.ContainsFunc(e.operations, is) }

// acknowledged reports whether an operation of a kind has taken effect for certain before a tick.
func (e *observed) acknowledged(kind schedule.ChangeKind, before int) bool {
	return e.some(func(a *operation) bool { return a.kind == kind && a.doneBetween(-1, before) })
}

// receipt is an event that a sink has received.
type receipt struct {
	tick  int
	at    time.Time // by the clock of Redis
	actor string
	owner string // the process
}

// explanation is a fault that may explain that an event was published twice.
type explanation struct {
	from, to time.Time
	process  string // "": all
	actor    string // "": the whole process
	delay    bool
}

// explains reports whether the fault may have caused the event of a receipt to be published again by
// the given time, with leases of the given length.
func (x *explanation) explains(r receipt, until time.Time, lease time.Duration) bool {
	return (x.process == "" || x.process == r.owner) && (x.actor == "" || x.actor == r.actor) &&
		!x.to.Before(r.at.Add(-lease)) && !x.from.After(until)
}

func newChecker() *checker { return &checker{events: map[string]*observed{}} }

// report records that an event violates a rule; event is "" if the violation concerns no single event.
func (chk *checker) report(rule, event, format string, args ...any) {
	chk.broken = append(chk.broken, sim.Violation{Rule: rule, Execution: event, Detail: fmt.Sprintf(format, args...)})
}

func (chk *checker) tick() int {
	chk.ticks++
	return chk.ticks
}

func (chk *checker) event(id string) *observed {
	if chk.events[id] == nil {
		chk.events[id] = &observed{}
	}
	return chk.events[id]
}

// asked records a request of a client.
func (chk *checker) asked(r *request) []*operation {
	out := make([]*operation, len(r.operations))
	for i, a := range r.operations {
		one := *a
		one.from, one.to = chk.tick(), math.MaxInt
		out[i] = &one
		e := chk.event(a.id)
		e.operations = append(e.operations, &one)
	}
	return out
}

// answered records the response to a request.
func (chk *checker) answered(a *operation, out *schedule.Outcome) {
	id := a.id
	a.to, a.code = chk.tick(), out.Code
	e := chk.event(id)
	switch {
	case a.kind == scheduleKind && out.Code == schedule.Success:
		chk.checkConflict(id, e, a)
	case a.kind == scheduleKind:
		for _, b := range e.operations {
			if b.kind == scheduleKind && b.done() && b.to < a.from && b.content.Equal(a.content) && !e.replaced(b, a.from) && !e.changing(b.from, a.to) {
				chk.report("repeating a request succeeds", id, "it was acknowledged, but when repeated it got %s", answerText(out))
				return
			}
		}
	case a.kind == schedule.Cancel && (out.Code == schedule.Success || out.Code == schedule.NoContent):
		a.code = schedule.Success
		for _, r := range e.receipts {
			if !e.replayed(r.tick, a.to) {
				chk.report("never published and cancelled", id, "it was published at %s, before a Cancel said %s", clock(r.at), answerText(out))
				return
			}
		}
	}
	if out.Code == schedule.NotFound && e.acknowledged(scheduleKind, a.from) {
		chk.report("an acknowledged event is found", id, "%s got NOT_FOUND", a.kind)
	}
}

// checkConflict checks that no conflicting content was acknowledged.
func (chk *checker) checkConflict(id string, e *observed, a *operation) {
	for _, b := range e.operations {
		if b == a || b.kind != scheduleKind || !b.done() || b.content.Equal(a.content) {
			continue
		}
		if !e.changing(-1, math.MaxInt) {
			chk.report("other content is a conflict", id, "two requests with different contents both got SUCCESS")
			return
		}
	}
}

// replaced reports whether a later request replaced the content of a for certain, before a tick.
func (e *observed) replaced(a *operation, before int) bool {
	return e.some(func(b *operation) bool {
		return b.kind == scheduleKind && b.replace && b.doneBetween(a.to, before) && !b.content.Equal(a.content)
	})
}

// moved reports whether a later request changed the time of a for certain, before a tick.
func (e *observed) moved(a *operation, before int) bool {
	return e.some(func(b *operation) bool { return b.kind == schedule.Move && b.doneBetween(a.to, before) })
}

// changing reports whether content or time of the event may have changed between two ticks.
func (e *observed) changing(from, to int) bool {
	return e.some(func(b *operation) bool { return (b.kind == schedule.Move || b.replace) && b.openBetween(from, to) })
}

// replayed reports whether the event may have been replayed between two ticks.
func (e *observed) replayed(from, to int) bool {
	return e.some(func(b *operation) bool { return b.kind == schedule.Replay && b.openBetween(from, to) })
}

// put records a request that another program put on the schedule topic. That program never learns
// the outcome.
func (chk *checker) put(id string, content schedule.Content) {
	e := chk.event(id)
	e.put = true
	e.operations = append(e.operations, &operation{kind: scheduleKind, content: content, from: chk.tick(), to: math.MaxInt})
}

// fault records what a fault may explain.
func (chk *checker) fault(s *simulation, p *process, f sim.Fault) {
	x := explanation{from: s.now, to: s.now.Add(f.Amount), process: p.name(), actor: f.Service}
	switch f.Kind {
	case sim.CrashBefore, sim.CrashAfter:
		x.actor, x.to = "", s.now
	case sim.Delay:
		x.actor, x.delay = "", true
	case Slow:
		x.delay = true
	case sim.Outage, Throttle:
		x.process, x.actor = "", ""
	case sim.DropRequest, sim.DropReply, sim.Duplicate:
	default:
		return
	}
	chk.faults = append(chk.faults, x)
}

// added is called for each entry of a stream.
func (s *simulation) added(key string, fields []string) {
	topic, ok := strings.CutPrefix(key, "scheduler:execute:")
	if !ok || fields == nil {
		return
	}
	got := schedule.Content{Topic: topic, Tenant: "default"}
	var id string
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		switch header, ok := strings.CutPrefix(name, "header:"); {
		case ok:
			if got.Headers == nil {
				got.Headers = map[string]string{}
			}
			got.Headers[header] = value
		case name == "id":
			id = value
		case name == "key":
			got.Key = value
		case name == "time":
			got.Due, _ = time.Parse(time.RFC3339Nano, value)
		case name == "data":
			got.Payload = []byte(value)
		}
	}
	s.checker.received(s, id, got)
}

// received checks an event that a sink has received.
func (chk *checker) received(s *simulation, id string, got schedule.Content) {
	e := chk.events[id]
	if e == nil {
		chk.report("only requested events are published", id, "no client has requested it")
		return
	}
	chk.published++
	r := receipt{tick: chk.tick(), at: s.now}
	if a := s.current; a != nil {
		r.actor, r.owner = a.name, a.process.name()
		s.log(a.name, "the sink receives it", id)
	}
	e.receipts = append(e.receipts, r)
	chk.checkContent(s, id, e, got, r.tick)
	if e.acknowledged(schedule.Cancel, r.tick) {
		chk.report("never published and cancelled", id, "it is published after a Cancel said SUCCESS")
	}
}

// checkContent checks that an event was published as requested, and not too early.
func (chk *checker) checkContent(s *simulation, id string, e *observed, got schedule.Content, tick int) {
	var content, due bool
	for _, a := range e.operations {
		switch {
		case a.kind == scheduleKind && a.open() && !e.replaced(a, tick):
			content = content || sameContent(id, a.content, got)
			if !e.moved(a, tick) && a.content.Due.Equal(got.Due) {
				due = true
			}
		case a.kind == schedule.Move && a.open() && !e.moved(a, tick) && !e.replaced(a, tick) && a.due.Equal(got.Due):
			due = true
		}
	}
	switch {
	case !content:
		chk.report("an event is published as requested", id, "the sink received %q %q %q %q", got.Topic, got.Key, got.Headers, got.Payload)
	case !due:
		chk.report("an event is published as requested", id, "the sink received it with the time %s, which is not in force", clock(got.Due))
	case got.Due.After(s.now):
		chk.report("never early", id, "it was published %s early", got.Due.Sub(s.now))
	}
}

func sameContent(id string, want, got schedule.Content) bool {
	return want.Topic == got.Topic && cmp.Or(want.Key, id) == got.Key && maps.Equal(want.Headers, got.Headers) && bytes.Equal(want.Payload, got.Payload)
}

// returned records what the sink returned for an event.
func (chk *checker) returned(x *schedule.Event, err error) {
	if err == nil {
		return
	}
	e := chk.event(x.ID)
	e.errors = append(e.errors, err.Error())
	chk.away = chk.away || errors.Is(err, schedule.ErrUnreachable)
}

// finish checks the final states of all events.
func (chk *checker) finish(s *simulation) {
	ledger := s.correctLedger(s.index(), nil)
	for _, id := range slices.Sorted(maps.Keys(chk.events)) {
		if id == "" {
			continue
		}
		found, err := ledger.Get(context.WithoutCancel(s.ctx), []string{id})
		if err != nil {
			chk.report("records can be read", id, "%v", err)
			continue
		}
		chk.checkEnd(s, id, chk.events[id], found[0])
	}
	for _, left := range s.leftovers() {
		chk.report("nothing is left", "", "%s", left)
	}
}

// checkEnd checks the final state of an event.
func (chk *checker) checkEnd(s *simulation, id string, e *observed, record *schedule.Event) {
	n := len(e.receipts)
	switch {
	case record == nil && e.acknowledged(scheduleKind, math.MaxInt):
		chk.report("nothing is lost", id, "it was acknowledged, and has no record")
	case record == nil && e.put && !s.rejected(id):
		chk.report("nothing is lost", id, "its message was neither stored nor rejected")
	case record == nil && n > 0:
		chk.report("nothing is lost", id, "it was published, and has no record")
	case record == nil:
	case e.acknowledged(schedule.Cancel, math.MaxInt) && record.Status != schedule.Cancelled:
		chk.report("never published and cancelled", id, "a Cancel said SUCCESS, and it is %s", record.Status)
	case record.Status == schedule.Fired && n == 0:
		chk.report("nothing is lost", id, "it is FIRED, and no sink has received it")
	case record.Status == schedule.Cancelled && !e.some(func(a *operation) bool { return a.kind == schedule.Cancel && a.open() }):
		chk.report("only cancelled events are CANCELLED", id, "no client cancelled it")
	case record.Status == schedule.Dead && !slices.Contains(e.errors, record.Error):
		chk.report("a DEAD event has the sink's reason", id, "its reason is %q, the sink said %q", record.Error, e.errors)
	case record.Status.Open():
		chk.report("nothing is left", id, "it is %s at the end, %s after its time", record.Status, s.now.Sub(record.Due))
	}
	if n > 1 {
		chk.checkDuplicates(s, id, e)
	}
	if len(s.injected) == 0 && n > 0 && len(e.errors) == 0 && !e.replayed(0, math.MaxInt) {
		limit := maxLate + 20*s.setting.Latency
		if chk.away {
			limit += pausedLate
		}
		if len(s.setting.Changes) > 0 {
			limit += s.setting.Lease // until all processes know of a new partition
		}
		if late := e.receipts[0].at.Sub(record.Due); late > limit {
			chk.report("never late", id, "it was published %s late, without faults", late)
		}
	}
}

// maxLate is the maximum delay of a publication without faults.
const maxLate = time.Second

// pausedLate is the maximum additional delay if the sink is unreachable for other events.
const pausedLate = 5 * time.Second

// checkDuplicates checks that a fault explains each repeated publication of an event.
func (chk *checker) checkDuplicates(s *simulation, id string, e *observed) {
	explanations := 0
	faults := chk.faults
	if s.setting.once() {
		faults = nil // whatever happens
	}
	last := e.receipts[len(e.receipts)-1].at
	delays := map[string]time.Duration{} // by process
	for _, x := range faults {
		if !slices.ContainsFunc(e.receipts, func(r receipt) bool { return x.explains(r, last, s.setting.Lease) }) {
			continue
		}
		if x.delay {
			if delays[x.process] += x.to.Sub(x.from); delays[x.process] < s.setting.Lease {
				continue
			}
		}
		explanations++
	}
	for _, a := range e.operations {
		if a.kind == schedule.Replay && a.open() {
			explanations++
		}
	}
	if duplicates := len(e.receipts) - 1; duplicates > explanations {
		chk.report("a fault explains each duplicate", id, "it was published %d times, and %d faults explain it", duplicates+1, explanations)
	}
}

// rejected reports whether a message about an event is among those that could not be handled.
func (s *simulation) rejected(id string) bool {
	return slices.ContainsFunc(s.broker.Records(scheduleDLQ), func(m schedule.Message) bool {
		got, _, err := m.Request()
		return err == nil && got == id
	})
}

// leftovers returns the entries that are left in the index.
func (s *simulation) leftovers() []string {
	var out []string
	for _, key := range s.redis.Keys("scheduler:{") {
		var partition int
		if _, err := fmt.Sscanf(key, "scheduler:{%d}", &partition); err == nil && s.forgotten && partition >= s.redisPartitions() {
			// Redis has also forgotten that there were more partitions. The entry was added by a process
			// that did not know that yet, and the event is in the index of its right partition, too.
			continue
		}
		if strings.Contains(key, "}:scheduled:") || strings.HasSuffix(key, "}:buckets") || strings.HasSuffix(key, "}:processing") {
			out = append(out, fmt.Sprintf("%s has %d entries", key, len(s.redis.Members(key))))
		}
	}
	if n := s.unread(); n > 0 && s.setting.Feed {
		out = append(out, fmt.Sprintf("%d messages of the schedule topic are not handled", n))
	}
	if s.table != nil {
		for _, e := range s.table.Events() {
			if e.Status.Open() {
				out = append(out, "the table has an open record: event "+e.ID+" is "+string(e.Status))
			}
		}
	}
	return out
}

// deadline returns the time by which everything must have ended, despite all faults.
func (s *simulation) deadline() time.Time {
	end := s.setting.troubleEnds().Add(10*time.Minute + 5*s.setting.MinDelay)
	for _, f := range s.injected {
		end = end.Add(f.Amount + 2*time.Minute)
	}
	return end
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
