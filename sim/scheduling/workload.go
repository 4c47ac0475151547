package scheduling

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/sim"
)

// Setting holds what a seed decides before a run.
type Setting struct {
	Table      bool // a table keeps the records; otherwise Redis does
	Broker     bool // a broker is the sink; otherwise Redis streams are
	Feed       bool // requests also arrive on a topic of the broker
	Processes  int
	Workers    int // of each process
	Batch      int
	Partitions int           // at first
	Changes    []int         // later numbers of partitions
	Lease      time.Duration // of claims and registrations
	Attempts   int
	MinDelay   time.Duration
	Skew       time.Duration // maximum, of the clocks of processes
	Latency    time.Duration // maximum, of a call
	Bucket     time.Duration // see scheduler.ReconcilerOptions
	Check      time.Duration
	Lag        time.Duration // maximum, of the table's index
	Fetch      int           // messages that a consumer reads in one batch
	Events     int
}

// settingOf returns the setting of a seed.
func settingOf(seed uint64) Setting {
	one := func(name string, of ...int) int { return of[sim.Choice(seed, name)%uint64(len(of))] }
	g := Setting{
		Processes: one("processes", 1, 2, 2, 3, 4), Workers: one("workers", 1, 2, 3), Batch: one("batch", 1, 2, 3, 50),
		Partitions: one("partitions", 1, 2, 4, 4, 16), Lease: time.Duration(one("lease", 5, 30, 30)) * time.Second,
		Attempts: one("attempts", 1, 3, 10), MinDelay: time.Duration(one("least delay", 1, 10, 60)) * time.Second,
		Skew: time.Duration(one("skew", 0, 1, 600)) * time.Second, Events: one("events", 1, 3, 5, 8, 12),
		Table: one("records", 0, 1) == 1, Broker: one("sink", 0, 1) == 1, Feed: one("feed", 0, 0, 1) == 1,
		Fetch: one("fetch", 1, 3, 100), Bucket: time.Duration(one("bucket", 2, 60)) * time.Second,
		Check: time.Duration(one("check", 1, 5)) * time.Second, Lag: time.Duration(one("lag", 0, 0, 500, 5000)) * time.Millisecond,
		Latency: time.Duration(one("latency", 0, 0, 1, 20)) * time.Millisecond,
	}
	if one("changes", 0, 0, 0, 1) == 1 {
		g.Changes = []int{one("first change", 1, 4, 8), one("second change", 2, 4, 32)}
	}
	return g
}

// once reports whether claims themselves publish events, in Redis, and so exactly once.
func (g *Setting) once() bool { return !g.Table && !g.Broker }

// begin is how long clients wait before their first requests.
const begin = time.Second

// troubleEnds is when topics that fail for a while work again.
func (g *Setting) troubleEnds() time.Time { return sim.Epoch().Add(2*g.MinDelay + 40*time.Second) }

// requestPrefix begins the names of actors that are requests.
const requestPrefix = "request "

// request is a request that a client repeats until it gets a response.
type request struct {
	name       string
	text       string       // in words
	operations []*operation // one for each event
	operator   bool         // from an operator, who needs no process of the scheduler and waits as long as it takes
	done       func()       // called after the response; may be nil
	tries      int
	do         func(context.Context, *process) ([]schedule.Outcome, error)
}

// ids returns the ids of the events that it is about.
func (r *request) ids() []string {
	out := make([]string, len(r.operations))
	for i, a := range r.operations {
		out[i] = a.id
	}
	return out
}

// span returns a duration below a limit.
func (s *simulation) span(name string, limit time.Duration) time.Duration {
	return time.Duration(s.chance(name, 0)%uint64(limit/time.Millisecond)) * time.Millisecond
}

// scheduleEvent puts the requests for an event on the timeline.
func (s *simulation) scheduleEvent(n int) {
	name := fmt.Sprintf("event %d", n)
	draw := func(what string, of uint64) uint64 { return s.chance(name+" "+what, 0) % of }
	group := fmt.Sprintf("group %d", n/groupSize)
	together := s.chance(group, 0)%3 == 0
	first := name
	if together {
		first = group
	}
	start := sim.Epoch().Add(begin + s.span(first+" start", 20*time.Second))
	slack := 5*time.Second + s.span(name+" due", 60*time.Second)
	id := schedule.FormatID(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.chance(name+" id", 0)), s.chance(name+" id", 1)))
	s.names[id] = name
	content := s.content(name, start.Add(s.setting.MinDelay+slack))
	if draw("crowd", 3) == 0 {
		content.Due = content.Due.Truncate(10 * time.Second).Add(10 * time.Second)
	}
	s.at(start, func() {
		switch {
		case s.setting.Feed && draw("program", 3) == 0:
			s.put(name, id, content)
		case together:
			s.join(group, id, content)
		default:
			s.send(s.scheduleRequest(name, false, []string{id}, []schedule.Content{content}))
		}
	})
	for i := range draw("requests", 4) {
		more := fmt.Sprintf("%s.%d", name, i+1)
		s.repeatedRequest(more, id, content, start)
	}
}

// groupSize is the maximum number of events in one request.
const groupSize = 4

// group collects the events of one request.
type group struct {
	ids      []string
	contents []schedule.Content
}

// join adds an event to a request that is sent when all that begin at this moment have joined.
func (s *simulation) join(name, id string, content schedule.Content) {
	g := s.groups[name]
	if g == nil {
		g = &group{}
		s.groups[name] = g
		s.at(s.now, func() { s.send(s.scheduleRequest(name, false, g.ids, g.contents)) })
	}
	g.ids, g.contents = append(g.ids, id), append(g.contents, content)
}

// content returns what to publish.
func (s *simulation) content(name string, due time.Time) schedule.Content {
	topics := []string{"orders", "orders", "orders", "payments", "payments", refusedTopic, mendedTopic, failingTopic, awayTopic}
	c := schedule.Content{
		Due: due, Topic: topics[s.chance(name+" topic", 0)%uint64(len(topics))], Tenant: "default",
		Payload: fmt.Appendf(nil, "%s\n\x00\xff%x", name, s.chance(name+" payload", 0)),
	}
	if n := s.chance(name+" key", 0); n%2 == 0 {
		c.Key = fmt.Sprintf("key %d", n%5)
	}
	if n := s.chance(name+" headers", 0); n%3 == 0 {
		c.Headers = map[string]string{"trace": strconv.FormatUint(n, 10), "empty": "", "x\r\n\"": "\x01 ü"}
	}
	return c
}

// repeatedRequest puts a request for an event that exists, or is about to, on the timeline.
func (s *simulation) repeatedRequest(name, id string, content schedule.Content, start time.Time) {
	draw := func(what string, of uint64) uint64 { return s.chance(name+" "+what, 0) % of }
	until := content.Due.Sub(start)
	at := start.Add(s.span(name+" at", until))
	switch draw("race", 4) {
	case 0: // with the first request
		at = start
	case 1, 2: // with the publication
		at = content.Due.Add(max(s.span(name+" race", 5*time.Millisecond)-2*time.Millisecond, 0))
	}
	other := s.content(name, later(content.Due, at.Add(s.setting.MinDelay+5*time.Second)).Add(s.span(name+" later", 20*time.Second)))
	var r *request
	switch draw("kind", 7) {
	case 0:
		r = s.scheduleRequest(name, false, []string{id}, []schedule.Content{content})
	case 1:
		r = s.scheduleRequest(name, false, []string{id}, []schedule.Content{other})
	case 2:
		r = s.scheduleRequest(name, true, []string{id}, []schedule.Content{other})
	case 3, 4:
		r = s.changeRequest(name, id, schedule.Change{Kind: schedule.Cancel})
	case 5:
		due := at.Add(s.setting.MinDelay + 5*time.Second + s.span(name+" move", 30*time.Second))
		r = s.changeRequest(name, id, schedule.Change{Kind: schedule.Move, Due: due})
	case 6:
		at = later(at, s.setting.troubleEnds()).Add(s.span(name+" replay", 30*time.Second))
		r = s.changeRequest(name, id, schedule.Change{Kind: schedule.Replay})
	}
	s.at(at, func() { s.send(r) })
}

// scheduleRequest returns a request to schedule some events.
func (s *simulation) scheduleRequest(name string, replace bool, ids []string, contents []schedule.Content) *request {
	requests := make([]scheduler.Request, len(ids))
	r := &request{name: name, text: "schedule"}
	for i, id := range ids {
		requests[i] = scheduler.Request{ID: strings.ToUpper(id), Content: contents[i], Replace: replace}
		r.operations = append(r.operations, &operation{id: id, kind: scheduleKind, content: contents[i], replace: replace})
		r.text += " for " + clock(contents[i].Due) + " on topic " + contents[i].Topic
	}
	if replace {
		r.text += ", replacing"
	}
	r.do = func(ctx context.Context, p *process) ([]schedule.Outcome, error) {
		return p.api.Schedule(ctx, requests)
	}
	return r
}

// put requests an event as another program would, by writing to the schedule topic.
func (s *simulation) put(name, id string, content schedule.Content) {
	value, err := (&schedule.Event{ID: id, Content: content}).Request()
	if err != nil {
		panic(err)
	}
	s.log("another program", "puts a request for "+clock(content.Due)+" on the schedule topic", id)
	s.checker.put(id, content)
	s.broker.Put(schedule.Message{Topic: scheduleTopic, Key: []byte(name), Value: value})
}

// changeRequest returns a request to change an event.
func (s *simulation) changeRequest(name, id string, change schedule.Change) *request {
	r := &request{name: name, text: string(change.Kind), operations: []*operation{{id: id, kind: change.Kind, due: change.Due}}}
	if change.Kind == schedule.Move {
		r.text += " to " + clock(change.Due)
	}
	r.do = func(ctx context.Context, p *process) ([]schedule.Outcome, error) {
		out, err := p.api.Change(ctx, id, change)
		return []schedule.Outcome{out}, err
	}
	return r
}

// repartition returns an operator's request to change the number of partitions. Processes that
// start later are configured with the new number; then comes the next change.
func (s *simulation) repartition(i int) *request {
	from, count := s.partitions, s.setting.Changes[i]
	r := &request{name: fmt.Sprintf("partitions %d", i), operator: true, text: fmt.Sprintf("change the partitions from %d to %d", from, count)}
	r.do = func(ctx context.Context, p *process) ([]schedule.Outcome, error) {
		return nil, s.ledger(s.index(), nil).SetPartitions(ctx, from, count)
	}
	r.done = func() {
		s.partitions = count
		if i+1 < len(s.setting.Changes) {
			s.at(s.now.Add(s.span("next change", 30*time.Second)), func() { s.send(s.repartition(i + 1)) })
		}
	}
	return r
}

// How long clients wait for a reply, and before they repeat a request.
const (
	patience   = 10 * time.Second
	clientRest = time.Second
)

// send makes a client send its request to a process. Without a response, the client sends it
// again, perhaps to another process.
func (s *simulation) send(r *request) {
	r.tries++
	name := fmt.Sprintf("%s%s #%d", requestPrefix, r.name, r.tries)
	p := &process{index: operators, incarnation: r.tries}
	up := slices.DeleteFunc(slices.Clone(s.processes), func(p *process) bool { return p.dead || !p.prepared })
	again := func(after time.Duration) { s.at(s.now.Add(after), func() { s.send(r) }) }
	switch {
	case r.operator:
	case len(up) == 0:
		again(clientRest)
		return
	default:
		p = up[s.chance(name, 0)%uint64(len(up))]
	}
	asks := s.checker.asked(r)
	answered, gone := false, false
	s.at(s.now.Add(patience), func() {
		if !answered && !r.operator {
			gone = true
			s.send(r)
		}
	})
	s.start(&actor{name: name, process: p, events: r.ids()}, func(*actor) {
		var out []schedule.Outcome
		s.log(name, r.text+" through "+p.name(), r.ids()...)
		err := s.call(toClient, "request", func() error {
			var err error
			out, err = r.do(s.ctx, p)
			return err
		})
		if s.ctx.Err() != nil || gone {
			return
		}
		answered = true
		if err != nil {
			s.log(name, "no answer: "+err.Error(), r.ids()...)
			again(clientRest)
			return
		}
		if r.done != nil {
			r.done()
		}
		for i := range out {
			s.log(name, "answer: "+answerText(&out[i]), asks[i].id)
			s.checker.answered(asks[i], &out[i])
		}
	})
}

func answerText(o *schedule.Outcome) string {
	if o.Message == "" {
		return o.Code.String()
	}
	return o.Code.String() + ", " + o.Message
}
