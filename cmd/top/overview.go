package top

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

// Sizes of the lists in an overview and the bound of the searches for them.
const (
	fewDue     = 24
	fewRunning = 24
	fewFailed  = 24
	maxScanned = 1000
)

// Overview returns the overview.
func (l *Live) Overview(ctx context.Context) (o tui.Overview, err error) {
	defer func() { err = lost(ctx, err) }()
	since := l.sample.since()
	g, err := inspect.New(l.store).Overview(ctx, l.opts.Tenant, since)
	if err != nil {
		return o, err
	}
	o = tui.Overview{
		Now: g.Now, Place: l.opts.Place, Tenant: l.opts.Tenant,
		Counts: tui.Counts{
			Open: g.Open, Completed: g.Completed, Faulted: g.Faulted, Cancelled: g.Cancelled,
			Timers: g.Timers, Overdue: g.Overdue, Dead: g.Dead,
		},
	}
	o.Events, o.Fires = l.sample.take(g, since, time.Now())
	for _, part := range []func(context.Context, *tui.Overview) error{l.due, l.running, l.failed, l.services, l.notes, l.scheduled} {
		if err := part(ctx, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// due adds the timers that fire next.
func (l *Live) due(ctx context.Context, o *tui.Overview) error {
	page, err := timers.New(l.store).Page(ctx, timers.Query{Filter: timers.Filter{Tenant: l.opts.Tenant}, Limit: fewDue, MaxScanned: maxScanned})
	for _, p := range page.Timers {
		o.Due = append(o.Due, timerRow(p, o.Now))
	}
	if page.Next == "" {
		o.Of.Due = int64(len(o.Due))
	}
	return err
}

// running adds the tasks that executors are performing.
func (l *Live) running(ctx context.Context, o *tui.Overview) error {
	running, err := inspect.New(l.store).PendingEntries(ctx, l.opts.Tenant, l.opts.Executor, 2*fewRunning)
	tasks := int64(0)
	for _, h := range running {
		if h.Event.Type != event.TaskRequested {
			continue
		}
		if tasks++; len(o.Running) == fewRunning {
			continue
		}
		o.Running = append(o.Running, tui.Row{
			ID: h.ID, State: tui.Running, Kind: history.Detail(h.Event), Workflow: h.Event.Workflow, Execution: h.Event.Execution, Task: h.Event.Task,
			At: h.Since, Note: h.Consumer, Count: h.Count,
		})
	}
	if len(running) < 2*fewRunning {
		o.Of.Running = tasks
	}
	return err
}

// failed adds recent failures: executions that failed lately, the newest faulted ones, and
// dead letters.
func (l *Live) failed(ctx context.Context, o *tui.Overview) error {
	known, err := l.faulted(ctx)
	if err != nil {
		return err
	}
	problems, err := inspect.New(l.store).Problems(ctx, l.opts.Tenant, actions.IDs(known)...)
	if err != nil {
		return err
	}
	for i, x := range known {
		row := executionRow(x)
		row.Kind, row.Note = "execution", problems[i]
		o.Failed = append(o.Failed, row)
	}
	deadLetters, _, err := stream.New(l.store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: l.opts.Tenant, Range: store.Range{Count: fewFailed, Brief: true}})
	for _, deadLetter := range deadLetters {
		o.Failed = append(o.Failed, deadLetterRow(deadLetter))
	}
	slices.SortStableFunc(o.Failed, func(a, b tui.Row) int { return b.Last().Compare(a.Last()) })
	o.Failed = o.Failed[:min(len(o.Failed), fewFailed)]
	o.Of.Failed = o.Counts.Faulted + o.Counts.Dead
	return err
}

// faulted returns executions that have failed and can be read, latest first.
func (l *Live) faulted(ctx context.Context) ([]store.Execution, error) {
	query := store.ExecutionQuery{Statuses: []string{string(tui.Faulted)}, Limit: fewFailed, MaxScanned: maxScanned, Damaged: func(string, error) {}}
	found, _, err := l.store.Executions(ctx, l.opts.Tenant, query)
	if err != nil {
		return nil, err
	}
	seen, err := l.store.Outlines(ctx, l.opts.Tenant, l.sample.faulted()...)
	if err != nil {
		return nil, err
	}
	for _, x := range seen {
		listed := slices.ContainsFunc(found, func(other store.Execution) bool { return other.ID == x.ID })
		if !listed && x.Status == string(tui.Faulted) {
			found = append(found, x)
		}
	}
	slices.SortStableFunc(found, func(a, b store.Execution) int { return b.EndedAt.Compare(a.EndedAt) })
	return found[:min(len(found), fewFailed)], nil
}

// silentAfter is how long after its last read a consumer counts as gone. An idle one reads every
// few seconds.
const silentAfter = 20 * time.Second

// services adds the services with their processes, and other readers of the stream.
func (l *Live) services(ctx context.Context, o *tui.Overview) error {
	running, now, err := processes.In(l.store).All(ctx)
	if err != nil {
		return err
	}
	streams, err := inspect.New(l.store).Streams(ctx, []string{l.opts.Tenant})
	if err != nil {
		return err
	}
	o.Notes = append(o.Notes, append(l.failing(running, now), l.circuits(running, now)...)...)
	services := map[string]string{l.opts.Worker: "worker", l.opts.Executor: "executor", l.opts.Timer: "timer"} // by group
	for i := range running {
		for _, service := range running[i].Services {
			if running[i].Alive(now) && running[i].Runs(service.Name, l.opts.Tenant) {
				services[service.Group] = service.Name
			}
		}
	}
	var length int64
	for _, s := range streams {
		length = s.Length
		for _, g := range s.Groups {
			o.Services = append(o.Services, l.service(g, services, running, now))
		}
	}
	// A group that does not exist yet may have running processes, and has the whole stream to read.
	for _, group := range slices.Sorted(maps.Keys(services)) {
		name := services[group]
		if slices.ContainsFunc(o.Services, func(s tui.Service) bool { return s.Name == name }) {
			continue
		}
		s := l.service(inspect.Group{Name: group, Lag: length}, services, running, now)
		if s.Alive == 0 {
			s.Note = "has not read yet"
		}
		o.Services = append(o.Services, s)
	}
	slices.SortStableFunc(o.Services, func(a, b tui.Service) int { return cmp.Compare(rank(a.Name), rank(b.Name)) })
	return nil
}

// failing lists the services of the tenant that fail in a process.
func (l *Live) failing(running []processes.Process, now time.Time) (notes []string) {
	for i := range running {
		for _, s := range running[i].Services {
			if s.Failing != "" && running[i].Alive(now) && running[i].Serves(l.opts.Tenant) {
				notes = append(notes, fmt.Sprintf("the %s of process %s fails: %s", s.Name, running[i].Name, s.Failing))
			}
		}
	}
	return notes
}

// fewCircuits is how many hosts with open circuit breakers are named.
const fewCircuits = 3

// circuits lists the hosts whose circuit breakers are open in a process that runs the executor.
func (l *Live) circuits(running []processes.Process, now time.Time) (notes []string) {
	worst, in := map[string]processes.Circuit{}, map[string]int{}
	for i := range running {
		p := &running[i]
		if !p.Alive(now) || !p.Runs("executor", l.opts.Tenant) {
			continue
		}
		for _, c := range p.Circuits {
			if c.Tenant != "" && c.Tenant != l.opts.Tenant {
				continue
			}
			in[c.Host]++
			if known, ok := worst[c.Host]; !ok || c.Until.After(known.Until) {
				worst[c.Host] = c
			}
		}
	}
	hosts := slices.Sorted(maps.Keys(worst))
	for _, host := range hosts[:min(len(hosts), fewCircuits)] {
		c := worst[host]
		state, then := "half-open", "the next call decides"
		if left := c.Until.Sub(now); left > 0 {
			state, then = "open", "no calls for "+history.Duration(left.Round(time.Second))
		}
		why := history.Count(c.Failures, "failure") + " in a row"
		if n := in[host]; n > 1 {
			why += fmt.Sprintf(", in %d processes", n)
		}
		notes = append(notes, fmt.Sprintf("circuit breaker %s: %s, %s (%s)", state, host, then, why))
	}
	if more := len(hosts) - fewCircuits; more > 0 {
		notes = append(notes, "circuit breakers of "+history.Count(more, "other host")+" are open or half-open")
	}
	return notes
}

// rank orders the services in the order of processing. Other readers follow.
func rank(name string) int {
	at := slices.Index([]string{"worker", "executor", "timer"}, name)
	if at < 0 {
		return 3
	}
	return at
}

// service describes a service or the group of another reader. A consumer is alive if its
// registered process is: on a cluster, an idle one does not read. If it has none, its last read
// counts.
func (l *Live) service(g inspect.Group, services map[string]string, running []processes.Process, now time.Time) tui.Service {
	s := tui.Service{Name: cmp.Or(services[g.Name], g.Name), Lag: g.Lag, Pending: g.Pending}
	workers := l.readers(g)
	for i := range running {
		p := &running[i]
		for _, service := range p.Services {
			if service.Group != g.Name || !p.Runs(service.Name, l.opts.Tenant) {
				continue
			}
			if isBridge(g.Name) {
				service.Consumers = []string{p.Name}
			}
			for _, name := range service.Consumers {
				w, reads := workers[name]
				if w.Name = name; p.Alive(now) {
					w.State, w.Idle = tui.Alive, min(w.Idle, max(now.Sub(p.LastSeen()), 0))
				} else if reads && (w.Pending > 0 || p.Stopped.IsZero()) {
					w.State, w.Idle = tui.Silent, max(now.Sub(p.LastSeen()), 0)
				} else {
					delete(workers, name)
					continue
				}
				workers[name] = w
			}
		}
	}
	for _, w := range workers {
		if w.State == tui.Alive {
			s.Alive++
			s.Busy += int(min(1, w.Pending))
		}
		s.Workers = append(s.Workers, w)
	}
	slices.SortStableFunc(s.Workers, func(a, b tui.Worker) int {
		return cmp.Or(cmp.Compare(a.State, b.State), strings.Compare(a.Name, b.Name))
	})
	return s
}

// readers returns the consumers of a group by name. Those of bridges are their processes: all of
// them read under one name.
func (l *Live) readers(g inspect.Group) map[string]tui.Worker {
	workers := map[string]tui.Worker{}
	if isBridge(g.Name) {
		return workers
	}
	for _, c := range g.Consumers {
		w := tui.Worker{Name: c.Name, State: tui.Alive, Pending: c.Pending, Idle: max(c.Idle, 0)}
		// A busy consumer reads only from time to time.
		limit := silentAfter
		if c.Pending > 0 {
			limit = max(limit, l.opts.Lease)
		}
		switch {
		case l.noIdle:
			w.Idle = 0
		case c.Idle > limit:
			w.State = tui.Silent
		}
		workers[c.Name] = w
	}
	return workers
}

func isBridge(group string) bool { return strings.HasPrefix(group, store.BridgePrefix) }

// tooLate is the delay of a timer above which a note appears.
const tooLate = 5 * time.Second

// notes adds warnings.
func (l *Live) notes(ctx context.Context, o *tui.Overview) error {
	note := func(format string, args ...any) { o.Notes = append(o.Notes, fmt.Sprintf(format, args...)) }
	const tenantsMaxAge, clusterMaxAge = 30 * time.Second, 5 * time.Second
	all, err := l.tenants.get(ctx, tenantsMaxAge, l.store.Tenants)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == l.opts.Tenant })
	if o.Counts.Shared = len(others) > 0 && !l.store.Clustered(); !o.Counts.Shared {
		o.Of.Due = o.Counts.Timers
	}
	if c := o.Counts; c.Open+c.Completed+c.Faulted+c.Cancelled+c.Dead == 0 && len(others) > 0 {
		const named = 5
		some := strings.Join(others[:min(len(others), named)], ", ")
		if len(others) > named {
			some += fmt.Sprintf(" and %d others", len(others)-named)
		}
		note("tenant %s has no data here, unlike %s: use --tenant", l.opts.Tenant, some)
	}
	var missing []string
	bridged := false
	for _, s := range o.Services {
		bridged = bridged || s.Name == "bridge" && s.Alive > 0
		if s.Alive == 0 && isBridge(s.Name) {
			note("no process runs the bridge that reads as %s: it is %s behind, and the stream grows, see 'flunq doctor'", s.Name, history.Count(int(max(s.Lag, 0)+s.Pending), "entry"))
		}
	}
	for _, s := range o.Services {
		outside := bridged && s.Name == "executor" && s.Note != "" // no executor has ever read: programs elsewhere perform the tasks
		if s.Alive == 0 && rank(s.Name) < 3 && !outside {
			missing = append(missing, s.Name)
		}
	}
	switch len(missing) {
	case 0:
	case 3:
		note("no process runs the services for this tenant: start 'flunq serve'")
	default:
		note("no process runs the %s service for this tenant: start 'flunq serve'", strings.Join(missing, " or the "))
	}
	readable := slices.IndexFunc(o.Due, func(r tui.Row) bool { return r.State != tui.Broken })
	if readable >= 0 && o.Now.Sub(o.Due[readable].At) > tooLate {
		note("timers are overdue by %s", history.Duration(o.Now.Sub(o.Due[readable].At).Round(time.Second)))
	}
	if !l.store.Clustered() {
		return nil
	}
	known, err := l.cluster.get(ctx, clusterMaxAge, l.store.Cluster)
	if err == nil {
		clusterNotes(known, note)
	}
	return err
}

// clusterNotes adds warnings about the masters of a cluster.
func clusterNotes(known store.Cluster, note func(format string, args ...any)) {
	if known.Uncovered > 0 {
		whose := "their tenants wait"
		if known.Down {
			whose = "every tenant waits"
		}
		note("%s of the cluster have no master: %s", history.Count(known.Uncovered, "slot"), whose)
	}
	if len(known.Gone) > 0 {
		note("out of reach: %s", strings.Join(known.Gone, ", "))
	}
	for _, m := range known.Masters {
		const full = 90 // percent
		switch {
		case m.Err != nil:
			note("master %s: %v", m.Address, m.Err)
		case m.Limit > 0 && m.Used > m.Limit/100*full:
			note("master %s is %d %% full", m.Address, m.Used*100/m.Limit)
		case len(m.Replicas) == 0:
			note("master %s has no replica", m.Address)
		}
	}
}

// scheduled adds the number of scheduled events, and a note if they are not published in time.
func (l *Live) scheduled(ctx context.Context, o *tui.Overview) error {
	index := agenda.NewIndex(l.store.Redis())
	members, err := index.Members(ctx, "", 0)
	if err != nil || members.Count == 0 { // the scheduler has not been used on this Redis
		return err
	}
	counts, err := index.Counts(ctx, tooLate)
	if err != nil {
		return err
	}
	sum := schedule.Sum(counts)
	o.Counts.Scheduled = sum.Scheduled + sum.Firing
	if sum.Overdue > 0 {
		o.Notes = append(o.Notes, history.Count(sum.Overdue, "scheduled event")+" overdue by "+history.Duration(sum.Now.Sub(sum.Next).Round(time.Second)))
	}
	if sum.Dead > 0 {
		o.Notes = append(o.Notes, history.Count(sum.Dead, "scheduled event")+" could not be published, see 'flunq schedule dlq ls'")
	}
	if len(members.Processes) == 0 && o.Counts.Scheduled > 0 {
		o.Notes = append(o.Notes, "no process publishes scheduled events: start 'flunq serve --scheduler'")
	}
	return nil
}
