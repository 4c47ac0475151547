package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/processes"
)

// services returns the names of the services in the order of processing.
func services() []string { return []string{"worker", "executor", "timer"} }

// running checks which processes run the services and for which tenants.
func (d *doctor) running(ctx context.Context, streams []inspect.Stream) {
	all, now, err := processes.In(d.remote.Store).All(ctx)
	if err != nil {
		d.unchecked("processes", "", err)
		return
	}
	d.processes, d.at = all, now
	d.listProcesses()
	outside := 0
	for _, s := range streams {
		d.served(s)
		if len(d.groupsOf("executor", s.Tenant)) == 0 && d.performedOutside(s) {
			outside++
		}
	}
	text := "worker, executor and timer run for " + d.tenantsText()
	switch {
	case outside == 1 && len(d.tenants) == 1:
		text = "worker and timer run for " + d.tenantsText() + "; other programs perform its tasks"
	case outside > 0:
		text = fmt.Sprintf("worker and timer run for %s; other programs perform the tasks of %d", d.tenantsText(), outside)
	}
	d.sumUpStreams("services", text)
}

// tenantsText describes the checked tenants.
func (d *doctor) tenantsText() string {
	if len(d.tenants) == 1 {
		return "tenant " + d.tenants[0]
	}
	return "each of " + history.Count(len(d.tenants), "tenant")
}

// anyRuns reports whether a process runs a service for any tenant.
func (d *doctor) anyRuns(service string) bool {
	return slices.ContainsFunc(d.processes, func(p processes.Process) bool { return p.Alive(d.at) && p.Service(service) != nil })
}

// justUp reports whether Redis has started so recently that processes may not have registered again.
func (d *doctor) justUp() bool {
	return d.server.Version != "" && d.server.Uptime >= 0 && d.server.Uptime <= processes.HeartbeatEvery+5*time.Second
}

// anyDead reports whether a process is dead.
func (d *doctor) anyDead() bool {
	return slices.ContainsFunc(d.processes, d.dead)
}

// dead reports whether a process has stopped sending heartbeats without deregistering.
func (d *doctor) dead(p processes.Process) bool { return p.Stopped.IsZero() && !p.Alive(d.at) }

// late reports whether a process that counts as alive has missed a heartbeat.
func (d *doctor) late(p *processes.Process) bool {
	return !p.Embedded && p.Alive(d.at) && d.at.Sub(p.Heartbeat) > processes.HeartbeatEvery*3/2
}

// listProcesses reports the running processes and those that died recently.
func (d *doctor) listProcesses() {
	var alive, late []string
	for i := range d.processes {
		p := &d.processes[i]
		if p.Alive(d.at) {
			alive = append(alive, d.describe(p))
		}
		if d.late(p) {
			late = append(late, nameOf(p))
		}
	}
	state, remedy := isFine, ""
	switch len(late) {
	case 0:
	case 1:
		state, remedy = isDoubtful, "a heartbeat is late: check whether "+late[0]+" still runs"
	default:
		state, remedy = isDoubtful, "heartbeats are late: check whether these still run: "+cli.ShortList(late)
	}
	switch n := len(alive); {
	case n == 0 && d.justUp():
		d.report("processes", isUnknown, "none has registered since Redis started", restarted)
	case n == 0 && d.anyDead(): // reported below
	case n == 0:
		d.report("processes", isDoubtful, "none is running", "flunq serve starts one")
	case n == 1:
		d.report("processes", state, alive[0], remedy)
	case n <= maxListed:
		d.report("processes", state, fmt.Sprintf("%s running: %s", history.Number(n), strings.Join(alive, "; ")), remedy)
	default:
		d.report("processes", state, fmt.Sprintf("%s running: %s; and %s more", history.Number(n), strings.Join(alive[:maxListed], "; "), history.Number(n-maxListed)), remedy)
	}
	d.compareLeases()
	for i := range d.processes {
		p := &d.processes[i]
		for _, s := range p.Services {
			if s.Failing != "" && p.Alive(d.at) {
				d.report("processes", isBad, fmt.Sprintf("the %s of %s fails: %s", s.Name, nameOf(p), s.Failing), "see its log")
			}
		}
		if !d.dead(*p) {
			continue
		}
		f := finding{Check: "processes", State: isDoubtful}
		f.Text = fmt.Sprintf("%s has sent no heartbeat for %s: it was killed, is suspended, or cannot reach Redis", nameOf(p), since(d.at.Sub(p.Heartbeat)))
		lease := cmp.Or(time.Duration(p.LeaseMS)*time.Millisecond, d.settings.Lease)
		f.Remedy = fmt.Sprintf("check it; other processes take over its work after %s (LEASE)", history.Duration(lease))
		switch {
		case d.at.Sub(p.Heartbeat) > lease && d.replaced(p):
			f.State, f.Remedy = isFine, ""
			f.Text += "; other processes have taken over its work"
		case d.justUp():
			f.State, f.Remedy = isUnknown, restarted
		}
		d.add(f)
	}
}

// replaced reports whether running processes provide all services of a dead one.
func (d *doctor) replaced(dead *processes.Process) bool {
	tenants := dead.Tenants
	if dead.All {
		tenants = d.tenants
	}
	return !slices.ContainsFunc(dead.Services, func(s processes.Service) bool {
		return slices.ContainsFunc(tenants, func(tenant string) bool { return !slices.Contains(d.groupsOf(s.Name, tenant), s.Group) })
	})
}

// compareLeases reports processes with different leases.
func (d *doctor) compareLeases() {
	leases := map[int64]*processes.Process{}
	for i := range d.processes {
		if p := &d.processes[i]; p.Alive(d.at) && p.LeaseMS > 0 {
			leases[p.LeaseMS] = p
		}
	}
	if len(leases) < 2 {
		return
	}
	var each []string
	for _, ms := range slices.Sorted(maps.Keys(leases)) {
		each = append(each, fmt.Sprintf("%s in %s", history.Duration(time.Duration(ms)*time.Millisecond), nameOf(leases[ms])))
	}
	d.report("processes", isDoubtful, "they have different leases ("+strings.Join(each, ", ")+"): a process with a shorter lease repeats calls that another is still making",
		"set LEASE to the same value for every process")
}

// maxListed is the maximum number of processes to describe.
const maxListed = 5

const restarted = "Redis has just started, and processes register again within seconds: then run doctor again"

// nameOf describes a process by its command, pid and host.
func nameOf(p *processes.Process) string {
	name := "flunq " + p.Command
	if p.Command == "" {
		name = "process " + p.Name
	}
	return strings.TrimSpace(fmt.Sprintf("%s (pid %d on %s)", name, p.PID, p.Host))
}

// describe describes a running process.
func (d *doctor) describe(p *processes.Process) string {
	var names []string
	for _, s := range p.Services {
		names = append(names, s.Name)
	}
	tenants := "all tenants"
	if !p.All {
		tenants = "tenant " + cli.ShortList(p.Tenants)
	}
	work := strings.Join(names, ", ") + " for " + tenants
	if len(names) == 0 {
		work = "the scheduler"
	}
	text := nameOf(p) + ": " + work
	if p.Embedded {
		text += ", up for " + since(d.at.Sub(p.Started))
	} else {
		text += fmt.Sprintf(", started %s ago, last heartbeat %s ago", since(d.at.Sub(p.Started)), since(d.at.Sub(p.Heartbeat)))
	}
	if d.late(p) {
		text += fmt.Sprintf(" (counts as dead after %s)", history.Duration(processes.DeadAfter))
	}
	if p.Version != "" && p.Version != cli.Version().Version {
		text += ", version " + p.Version
	}
	return text
}

// since formats a duration to the second. Different clocks may make it negative, which
// counts as 0.
func since(t time.Duration) string { return history.Duration(max(t, 0).Round(time.Second)) }

// served checks which services run for a tenant.
func (d *doctor) served(s inspect.Stream) {
	var missing []string
	worst := isDoubtful
	var waiting strings.Builder
	for _, service := range services() {
		groups := d.groupsOf(service, s.Tenant)
		if len(groups) == 0 {
			if service == "executor" && d.performedOutside(s) {
				continue
			}
			group, _ := groupOf(s, d.settings.Groups()[service])
			if c, read := inspect.UnknownReader(d.processes, group.Consumers); read {
				d.add(finding{
					Check: "services", State: isUnknown, Tenant: s.Tenant,
					Text: fmt.Sprintf("no registered process runs the %s, but %s read with %s %s ago: an earlier version of flunq, or another program",
						service, c.Name, group.Name, since(c.Idle)),
				})
				continue
			}
			missing = append(missing, service)
			if n := group.Lag + group.Pending; n > 0 {
				worst = isBad
				fmt.Fprintf(&waiting, "; the %s has %s to read", service, history.Count(n, "event"))
			}
			continue
		}
		d.groupsExist(s, service, groups)
	}
	if len(missing) == 0 {
		return
	}
	f := finding{Check: "services", State: worst, Tenant: s.Tenant}
	f.Text = fmt.Sprintf("no process runs the %s%s%s", cli.OneOf(missing), d.lastOf(missing[0], s.Tenant), waiting.String())
	f.Remedy = "flunq serve"
	if len(missing) < len(services()) {
		f.Remedy += " --only " + strings.Join(missing, ",")
	}
	if store.Private(s.Tenant) {
		f.Remedy += " --tenant " + s.Tenant
	}
	f.Remedy += " starts it"
	// If Redis has restored events after a restart, it has also restored the entries of
	// processes.
	if d.justUp() && (d.anyDead() || len(d.processes) == 0 && waiting.Len() == 0) {
		f.State, f.Remedy = isUnknown, restarted
	}
	d.add(f)
}

// groupsOf returns the groups that running processes use for a service and a tenant.
func (d *doctor) groupsOf(service, tenant string) (groups []string) {
	for i := range d.processes {
		p := &d.processes[i]
		if !p.Alive(d.at) || !p.Runs(service, tenant) {
			continue
		}
		if group := p.Service(service).Group; !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return groups
}

// groupOf returns a group of a stream. One that does not exist has yet to read the whole stream.
func groupOf(s inspect.Stream, name string) (g inspect.Group, exists bool) {
	for _, g := range s.Groups {
		if g.Name == name {
			return g, true
		}
	}
	return inspect.Group{Name: name, Lag: s.Length}, false
}

// lastOf describes what happened to the last process that ran a service.
func (d *doctor) lastOf(service, tenant string) string {
	var last *processes.Process
	for i := range d.processes {
		p := &d.processes[i]
		if p.Runs(service, tenant) && (last == nil || p.LastSeen().After(last.LastSeen())) {
			last = p
		}
	}
	switch {
	case last == nil:
		return ""
	case last.Stopped.IsZero():
		return fmt.Sprintf(" (the last one, %s, sent its last heartbeat %s ago)", nameOf(last), since(d.at.Sub(last.Heartbeat)))
	default:
		return fmt.Sprintf(" (the last one, %s, was stopped %s ago)", nameOf(last), since(d.at.Sub(last.Stopped)))
	}
}

// groupsExist reports groups that processes should have created but have not, and services
// with several groups.
func (d *doctor) groupsExist(s inspect.Stream, service string, groups []string) {
	for _, group := range groups {
		waited := d.at.Sub(store.IDTime(s.First))
		if _, exists := groupOf(s, group); exists || s.Length == 0 || waited < newTenant {
			continue
		}
		d.add(finding{
			Check: "services", State: isBad, Tenant: s.Tenant,
			Text: fmt.Sprintf("a process runs the %s, but has not created its group %s on the stream, which has had events for %s: it has not found the tenant",
				service, group, since(waited)),
			Remedy: fmt.Sprintf("see its log; if another program has written the stream, 'redis-cli SADD flunq:tenants %s' registers the tenant", s.Tenant),
		})
	}
	if len(groups) > 1 {
		d.add(finding{
			Check: "services", State: isBad, Tenant: s.Tenant,
			Text:   fmt.Sprintf("processes run the %s with different groups, %s, so each event is handled twice", service, strings.Join(groups, " and ")),
			Remedy: fmt.Sprintf("set %s_CONSUMER_GROUP to the same value for all processes", strings.ToUpper(service)),
		})
	}
}

// newTenant is how long processes may take to discover a tenant whose stream another
// program has written: they search all keys every five minutes.
const newTenant = 6 * time.Minute

// otherReaders reports groups of other programs that no longer read. Streams are trimmed
// only up to the events that all groups have read.
func (d *doctor) otherReaders(streams []inspect.Stream) {
	if d.server.Version == "" {
		return // miniredis does not report when a consumer last read
	}
	count := 0
	for _, s := range streams {
		for _, g := range s.Groups {
			if d.ours(g.Name) {
				continue
			}
			count++
			seen := time.Duration(-1)
			for _, c := range g.Consumers {
				if seen < 0 || c.Idle < seen {
					seen = c.Idle
				}
			}
			if seen >= 0 && seen <= silentAfter {
				continue
			}
			f := finding{Check: "other groups", Tenant: s.Tenant, State: isDoubtful}
			f.Text = fmt.Sprintf("no process reads with the group %s, which has no consumers", g.Name)
			if seen >= 0 {
				f.Text = fmt.Sprintf("no process has read with the group %s for %s", g.Name, since(seen))
			}
			f.Text += fmt.Sprintf("; it has %s unread and %s pending events, which are not trimmed", history.Number(g.Lag), history.Number(g.Pending))
			f.Remedy = fmt.Sprintf("start the program that reads with it, or remove the group: redis-cli XGROUP DESTROY %s %s", s.Key, g.Name)
			d.add(f)
		}
	}
	if count > 0 {
		d.sumUpStreams("other groups", "all are read")
	}
}

// ours reports whether a group belongs to one of the services.
func (d *doctor) ours(group string) bool {
	return strings.HasPrefix(group, store.BridgePrefix) || d.service(group) != ""
}

// service returns the service that reads with a group, "" if none does.
func (d *doctor) service(group string) string {
	for i := range d.processes {
		for _, s := range d.processes[i].Services {
			if s.Group == group {
				return s.Name
			}
		}
	}
	for name, ours := range d.settings.Groups() {
		if ours == group {
			return name
		}
	}
	return ""
}

// serve returns the command that starts a service.
func serve(service string) string { return "flunq serve --only " + service }
