package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

const (
	silentAfter = time.Minute     // consumers of other programs should read more often
	longLag     = 1000            // unread events of a group
	lateAfter   = 5 * time.Second // timers fire within milliseconds
	lostAfter   = time.Minute     // a timer that is this late does not fire
	quietAfter  = 5 * time.Minute // running executions write events more often
	maxOpen     = 1000            // maximum number of executions to check
	maxCounted  = 10_000          // maximum number of overdue timers to count per tenant
)

// checkWork checks the streams, timers and executions in Redis.
func (d *doctor) checkWork(ctx context.Context) {
	streams, err := inspect.New(d.remote.Store).Streams(ctx, d.tenants)
	switch {
	case store.Temporary(err):
		d.unchecked("streams", "", err)
	case err != nil:
		d.report("streams", isBad, "not every stream can be read: "+err.Error(), "check with TYPE what is stored under the name of the stream, and rename it")
	}
	d.unread = len(d.tenants) - len(streams)
	d.running(ctx, streams)
	d.otherReaders(streams)
	d.unclaimed(ctx, streams)
	d.lag(streams)
	d.timers(ctx)
	d.deadLetters(ctx, streams)
	d.stalled(ctx)
	d.stuck(ctx)
	d.unlisted(ctx)
	for _, tenant := range d.tenants {
		d.kept(ctx, tenant)
	}
	d.sumUp("finished", "no finished executions")
	d.sumUp("next step",
		fmt.Sprintf("found no stalled execution (pending or running for %s without a new event, and with nothing unread, pending or due)", history.Duration(quietAfter)))
	d.others(ctx)
	d.checkScheduler(ctx)
	d.checkOutside(ctx)
	d.checkBridge(ctx, streams)
}

// sumUp adds an "ok" finding if a check found nothing.
func (d *doctor) sumUp(check, text string) {
	if !slices.ContainsFunc(d.findings, func(f finding) bool { return f.Check == check }) {
		d.report(check, isFine, text, "")
	}
}

// sumUpStreams is sumUp for a check of the tenants' streams, some of which could perhaps not be read.
func (d *doctor) sumUpStreams(check, text string) {
	switch read := len(d.tenants) - d.unread; {
	case d.unread == 0:
		d.sumUp(check, text)
	case read > 0:
		d.sumUp(check, fmt.Sprintf("%s (for %d of %s; the others cannot be read)", text, read, history.Count(len(d.tenants), "tenant")))
	}
}

// unclaimed reports messages that were read but neither acknowledged nor claimed.
func (d *doctor) unclaimed(ctx context.Context, streams []inspect.Stream) {
	idle, pending := 10*d.settings.Lease, int64(0)
	for _, s := range streams {
		for _, g := range s.Groups {
			pending += g.Pending
			if g.Pending == 0 || strings.HasPrefix(g.Name, store.BridgePrefix) {
				continue
			}
			p, err := inspect.New(d.remote.Store).Unclaimed(ctx, s.Tenant, g.Name, idle)
			if err != nil {
				d.unchecked("pending", s.Tenant, err)
				continue
			}
			if p.ID == "" {
				continue
			}
			f := finding{Check: "pending", State: isBad, Tenant: s.Tenant, Examples: []string{p.ID}}
			f.Text = fmt.Sprintf("no consumer claims the pending messages of %s (%d): the first was read by %s, has been idle for %s, deliveries %d",
				g.Name, g.Pending, p.Consumer, history.Duration(p.Idle.Round(time.Second)), p.Count)
			f.Remedy = fmt.Sprintf("redis-cli XPENDING %s %s IDLE %d - + 10 lists it", s.Key, g.Name, idle.Milliseconds())
			if name := d.service(g.Name); name != "" {
				f.Remedy = fmt.Sprintf("%s claims it, unless %s_RECLAIM_ENABLED is false; %s", serve(name), strings.ToUpper(name), f.Remedy)
			}
			d.add(f)
		}
	}
	d.sumUpStreams("pending", history.Count(int(pending), "event")+" read and not acknowledged, none for longer than "+history.Duration(idle))
}

// lag reports groups that fall behind.
func (d *doctor) lag(streams []inspect.Stream) {
	unread, groups := int64(0), 0
	for _, s := range streams {
		groups += len(s.Groups)
		for _, g := range s.Groups {
			unread += g.Lag
			service := d.service(g.Name)
			if g.Lag < longLag || strings.HasPrefix(g.Name, store.BridgePrefix) || service != "" && len(d.groupsOf(service, s.Tenant)) == 0 {
				continue // no consumers: already reported by another check
			}
			atLeast := ""
			if g.Lag == longLag { // if Redis does not report the lag, counting stops here
				atLeast = " or more"
			}
			f := finding{Check: "lag", State: isDoubtful, Tenant: s.Tenant, Text: fmt.Sprintf("%s has %s unread events%s", g.Name, history.Number(g.Lag), atLeast)}
			f.Remedy = "start more processes that read with this group"
			if service != "" {
				f.Remedy = fmt.Sprintf("if it grows, start more of '%s' or raise %s_CONCURRENCY", serve(service), strings.ToUpper(service))
			}
			d.add(f)
		}
	}
	d.sumUpStreams("lag", history.Count(int(unread), "event")+" unread by "+history.Count(groups, "consumer group"))
}

// timers reports overdue timers, which 'flunq timers ls --overdue' lists.
func (d *doctor) timers(ctx context.Context) {
	counts, err := inspect.New(d.remote.Store).Overdue(ctx, d.tenants, 0)
	if err != nil {
		d.unchecked("timers", "", err)
		return
	}
	f := finding{Check: "timers", State: isFine, Text: history.Count(int(counts.Count), "timer")}
	filter, list, limit := timers.Filter{Tenant: d.remote.Tenant, Until: counts.Now}, "flunq timers ls --overdue --tenant "+d.remote.Tenant, maxCounted
	if d.allTenants {
		filter.Tenant, list, limit = "", "flunq timers ls --overdue -A", 100 // counts has the others
	} else if counts.Count > 0 && !d.remote.Store.Clustered() {
		f.Text += " of all tenants"
	}
	due, next, err := timers.New(d.remote.Store).List(ctx, filter, "", limit)
	if err != nil {
		d.unchecked("timers", "", err)
		return
	}
	overdue, more := int64(len(due)), ""
	if d.allTenants {
		overdue = max(overdue, counts.Overdue)
	} else if f.Tenant = d.remote.Tenant; next != "" {
		more = " or more"
	}
	if len(due) == 0 {
		f.Text += ", none overdue"
		d.add(f)
		return
	}
	f.Text += fmt.Sprintf(", %s%s overdue", history.Number(overdue), more)
	late := lostAfter
	if i := slices.IndexFunc(due, func(p timers.Pending) bool { return p.Err == nil }); i >= 0 {
		late = counts.Now.Sub(due[i].Due.Due())
		f.Text += ", the first by " + history.Duration(late.Round(time.Millisecond))
	}
	switch {
	case late <= lateAfter:
		f.Text += ": they are firing now, unless this grows"
	case d.anyRuns("timer"):
		f.State, f.Remedy = isBad, list+" lists them; the logs of the timer services show why they do not fire; if they are overloaded, start more of them"
	default:
		f.State, f.Remedy = isBad, serve("timer")+" fires them; "+list+" lists them"
	}
	if f.State == isBad && late <= lostAfter {
		f.State = isDoubtful
	}
	if due[0].Err != nil {
		f.Text += fmt.Sprintf("; %s is unreadable and becomes a dead letter when a timer service reads it", due[0].ID)
	}
	d.add(f)
}

// deadLetters reports dead letters.
func (d *doctor) deadLetters(ctx context.Context, streams []inspect.Stream) {
	for _, s := range streams {
		if s.Dead == 0 {
			continue
		}
		f := finding{Check: "dead letters", State: isDoubtful, Tenant: s.Tenant, Text: history.Count(int(s.Dead), "dead letter")}
		newest, _, err := stream.New(d.remote.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: s.Tenant, Range: store.Range{Count: 1}})
		if err == nil && len(newest) > 0 {
			f.Text += ", the newest: " + newest[0].Reason
		}
		f.Remedy = fmt.Sprintf("flunq dlq ls --tenant %s, then dlq replay or dlq drop", s.Tenant)
		d.add(f)
	}
	d.sumUpStreams("dead letters", "none")
}

// stalled reports executions without progress.
func (d *doctor) stalled(ctx context.Context) {
	next, err := inspect.New(d.remote.Store).TimerOwners(ctx, d.tenants)
	if err != nil {
		d.unchecked("next step", "", err)
		return
	}
	for _, tenant := range d.tenants {
		d.stalledOf(ctx, tenant, next)
	}
}

func (d *doctor) stalledOf(ctx context.Context, tenant string, next inspect.TimerOwners) {
	found, err := inspect.New(d.remote.Store).Stuck(ctx, tenant, inspect.StuckQuery{Limit: maxOpen, Quiet: quietAfter, Next: next})
	found.Found = slices.DeleteFunc(found.Found, func(id string) bool { return d.waits(ctx, tenant, id) })
	f := finding{Check: "next step", Tenant: tenant, Examples: found.Found}
	switch {
	case err != nil:
		d.unchecked(f.Check, tenant, err)
		return
	case found.Unsure != "":
		f.State, f.Text = isUnknown, "cannot tell which executions have no next step: "+found.Unsure
		f.Remedy = "try again under less load"
	case len(found.Found) > 0:
		f.State = isDoubtful
		f.Text = fmt.Sprintf("%d of %d open executions were checked, and %d seem to have no next step: pending or running, "+
			"with nothing unread, pending or due, and no history for %s", found.Examined, found.Open, len(found.Found), history.Duration(quietAfter))
		f.Remedy = fmt.Sprintf("flunq history %s --tenant %s shows the last events", found.Found[0], tenant)
	default:
		return
	}
	d.add(f)
}

// waits reports whether an execution with the status running waits for an event or for an open
// child execution. It reports false if the execution cannot be examined.
func (d *doctor) waits(ctx context.Context, tenant, id string) bool {
	x, err := d.remote.Store.Execution(ctx, tenant, id)
	if err != nil {
		return false
	}
	state, err := examine.State(ctx, d.remote.Store, d.remote.Definitions, x)
	if err != nil {
		return false
	}
	for _, n := range state.Open() {
		if n.Listen != nil && !n.Listen.Stopped {
			return true
		}
		if n.Child == "" {
			continue
		}
		child, err := d.remote.Store.Execution(ctx, tenant, n.Child)
		if err == nil && !examine.Ended(child.Status) {
			return true
		}
	}
	return false
}

// unlisted reports executions that are missing from the index of ps.
func (d *doctor) unlisted(ctx context.Context) {
	found, complete, err := inspect.New(d.remote.Store).Unlisted(ctx, d.tenants, keyScans)
	if err != nil {
		d.unchecked("unlisted", "", err)
		return
	}
	for _, tenant := range slices.Sorted(maps.Keys(found)) {
		ids := found[tenant]
		d.add(finding{
			Check: "unlisted", State: isDoubtful, Tenant: tenant, Examples: ids,
			Text:   fmt.Sprintf("%s not in the list of executions, such as those of an older flunq.io deployment%s", history.Count(len(ids), "execution"), scanned(complete)),
			Remedy: fmt.Sprintf("flunq show %s --tenant %s shows it; its next event adds it to the list", ids[0], tenant),
		})
	}
}

// keyScans bounds the search for keys that no index lists, in thousands of keys.
const keyScans = 10

// scanned says that not all keys were searched.
func scanned(complete bool) string {
	if complete {
		return ""
	}
	return fmt.Sprintf(" (among some %d,000 keys)", keyScans)
}

// others reports streams of the other key scheme.
func (d *doctor) others(ctx context.Context) {
	tenant, flag := d.remote.Tenant, ""
	if d.allTenants {
		tenant, flag = "*", " -A"
	}
	found, complete, err := inspect.New(d.remote.Store).OtherStreams(ctx, tenant, keyScans)
	if err != nil {
		d.unchecked("other streams", "", err)
		return
	}
	if len(found) == 0 {
		d.report("other streams", isFine, "none of the key scheme tenant:*:workflow:*:events"+scanned(complete), "")
		return
	}
	f := finding{Check: "other streams", State: isDoubtful}
	for _, s := range found {
		f.Examples = append(f.Examples, s.Key)
	}
	f.Text = fmt.Sprintf("%s of the key scheme tenant:*:workflow:*:events%s, which the services do not read", history.Count(len(found), "stream"), scanned(complete))
	f.Remedy = fmt.Sprintf("flunq timers ls%s --other-streams and flunq dlq ls%s --other-streams show their content", flag, flag)
	d.add(f)
}
