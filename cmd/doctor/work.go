package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

const (
	silentAfter = time.Minute     // a consumer of another program is expected to read more often
	longLag     = 1000            // unread events of a group
	lateAfter   = 5 * time.Second // timers fire within milliseconds
	lostAfter   = time.Minute     // no service fires a timer that is this late
	quietAfter  = 5 * time.Minute // a running execution writes events more often
	mostOpen    = 1000            // maximum number of executions to check
	mostCounted = 10_000          // maximum number of overdue timers to count per tenant
)

// lookAtWork checks the streams, timers and executions in Redis.
func (d *doctor) lookAtWork(ctx context.Context) {
	streams, err := inspect.New(d.remote.Store).Streams(ctx, d.tenants)
	if err != nil {
		d.say("streams", isBad, "not every stream can be read: "+err.Error(), "see with TYPE what stands under the name of the stream, and rename it")
	}
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
	d.sumUp("finished", "no finished executions", "")
	d.sumUp("next step", "no execution seems to have lost its way",
		fmt.Sprintf(" (of those pending or running: nothing unread, pending or due, and no history for %s)", history.Duration(quietAfter)))
	d.others(ctx)
}

// sumUp adds an "ok" finding if a check found nothing.
func (d *doctor) sumUp(check, text, how string) {
	if !slices.ContainsFunc(d.findings, func(f finding) bool { return f.Check == check }) {
		d.say(check, isFine, text+how, "")
	}
}

// unclaimed looks for messages that were read but never acknowledged or claimed.
func (d *doctor) unclaimed(ctx context.Context, streams []inspect.Stream) {
	idle, pending := 10*d.settings.Lease, int64(0)
	for _, s := range streams {
		for _, g := range s.Groups {
			pending += g.Pending
			if g.Pending == 0 {
				continue
			}
			p, err := inspect.New(d.remote.Store).Unclaimed(ctx, s.Tenant, g.Name, idle)
			if err != nil {
				d.blind("pending", s.Tenant, err)
				continue
			}
			if p.ID == "" {
				continue
			}
			f := finding{Check: "pending", State: isBad, Tenant: s.Tenant, Examples: []string{p.ID}}
			f.Text = fmt.Sprintf("no consumer claims the pending messages of %s (%d): the first was read by %s, has been idle for %s, deliveries %d",
				g.Name, g.Pending, p.Consumer, history.Duration(p.Idle.Round(time.Second)), p.Count)
			f.Remedy = fmt.Sprintf("XPENDING %s %s IDLE %d - + 10 lists it", s.Key, g.Name, idle.Milliseconds())
			if name := d.service(g.Name); name != "" {
				f.Remedy = fmt.Sprintf("%s claims it, unless %s_RECLAIM_ENABLED is false; %s", d.serve(name), strings.ToUpper(name), f.Remedy)
			}
			d.add(f)
		}
	}
	d.sumUp("pending", history.Count(int(pending), "event")+" read and not acknowledged, none for longer than "+history.Duration(idle), "")
}

// lag looks for groups that fall behind.
func (d *doctor) lag(streams []inspect.Stream) {
	unread := int64(0)
	for _, s := range streams {
		for _, g := range s.Groups {
			unread += g.Lag
			service := d.service(g.Name)
			if g.Lag < longLag || service != "" && len(d.groupsOf(service, s.Tenant)) == 0 {
				continue // no consumers: already reported by another check
			}
			atLeast := ""
			if g.Lag == longLag { // without a lag from Redis, counting stops there
				atLeast = " or more"
			}
			f := finding{Check: "lag", State: isDoubtful, Tenant: s.Tenant, Text: fmt.Sprintf("%s has %s unread events%s", g.Name, history.Number(g.Lag), atLeast)}
			f.Remedy = "start more processes that read with it"
			if service != "" {
				f.Remedy = fmt.Sprintf("if that grows, start more of '%s', or raise %s_CONCURRENCY", d.serve(service), strings.ToUpper(service))
			}
			d.add(f)
		}
	}
	d.sumUp("lag", history.Count(int(unread), "event")+" unread", "")
}

// timers looks for overdue timers, as 'flunq timers ls --overdue' lists them.
func (d *doctor) timers(ctx context.Context) {
	sets, err := inspect.New(d.remote.Store).Overdue(ctx, d.tenants[:1], 0)
	if err != nil {
		d.blind("timers", "", err)
		return
	}
	set := sets[0] // over all tenants
	f := finding{Check: "timers", State: isFine, Text: history.Count(int(set.Count), "timer")}
	filter, list := timers.Filter{Tenant: d.remote.Tenant, Until: set.Now}, "flunq timers ls --overdue --tenant "+d.remote.Tenant
	if d.everyone {
		filter.Tenant, list = "", "flunq timers ls --overdue -A"
	} else if set.Count > 0 {
		f.Text += " of all tenants"
	}
	most := 1 // enough to know the first one
	if !d.everyone {
		most = mostCounted
	}
	due, next, err := timers.New(d.remote.Store).List(ctx, filter, "", most)
	if err != nil {
		d.blind("timers", "", err)
		return
	}
	overdue, more := int64(len(due)), ""
	if d.everyone {
		overdue = max(overdue, set.Overdue)
	} else if f.Tenant = d.remote.Tenant; next != "" {
		more = " or more"
	}
	if len(due) == 0 {
		f.Text += ", none overdue"
		d.add(f)
		return
	}
	late := set.Now.Sub(due[0].Due.Due())
	f.Text += fmt.Sprintf(", %s%s overdue, the first by %s", history.Number(overdue), more, history.Duration(late.Round(time.Millisecond)))
	switch {
	case late <= lateAfter:
		f.Text += ": these fire just now, unless that grows"
	case d.anyRuns("timer"):
		f.State, f.Remedy = isBad, list+" lists them; the log of the processes that run the timer service says why they do not fire, or they have more to do than they can: start more of them"
	default:
		f.State, f.Remedy = isBad, d.serve("timer")+" fires them; "+list+" lists them"
	}
	if f.State == isBad && late <= lostAfter {
		f.State = isDoubtful
	}
	d.add(f)
}

// deadLetters looks for dead letters.
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
	d.sumUp("dead letters", "none", "")
}

// stalled looks for executions without progress.
func (d *doctor) stalled(ctx context.Context) {
	next, err := inspect.New(d.remote.Store).TimerOwners(ctx, d.tenants)
	if err != nil {
		d.blind("next step", "", err)
		return
	}
	for _, tenant := range d.tenants {
		d.stalledOf(ctx, tenant, next)
	}
}

func (d *doctor) stalledOf(ctx context.Context, tenant string, next inspect.TimerOwners) {
	found, err := inspect.New(d.remote.Store).Stuck(ctx, tenant, inspect.StuckQuery{Most: mostOpen, Quiet: quietAfter, Next: next})
	found.Found = slices.DeleteFunc(found.Found, func(id string) bool { return d.waits(ctx, tenant, id) })
	f := finding{Check: "next step", Tenant: tenant, Examples: found.Found}
	switch {
	case err != nil:
		d.blind(f.Check, tenant, err)
		return
	case found.Unsure != "":
		f.State, f.Text = isUnknown, "cannot tell which executions have no next step: "+found.Unsure
		f.Remedy = "ask again when they have less to do"
	case len(found.Found) > 0:
		f.State = isDoubtful
		f.Text = fmt.Sprintf("of %d open executions %d were looked at, and %d seem to have no next step: pending or running, "+
			"with nothing unread, pending or due, and no history for %s", found.Open, found.Examined, len(found.Found), history.Duration(quietAfter))
		f.Remedy = fmt.Sprintf("flunq history %s --tenant %s shows what came last", found.Found[0], tenant)
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
	state, err := examine.State(ctx, d.remote.Store, definitions.New(d.remote.Store, decide.Options{Version: cli.Version().Version}), x)
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

// unlisted looks for executions that are missing from the index of ps.
func (d *doctor) unlisted(ctx context.Context) {
	found, complete, err := inspect.New(d.remote.Store).Unlisted(ctx, d.tenants, keyScans)
	if err != nil {
		d.blind("unlisted", "", err)
		return
	}
	for _, tenant := range slices.Sorted(maps.Keys(found)) {
		ids := found[tenant]
		d.add(finding{
			Check: "unlisted", State: isDoubtful, Tenant: tenant, Examples: ids,
			Text:   fmt.Sprintf("%s not in the list of executions, as of an older flunq.io deployment%s", history.Count(len(ids), "execution"), asFar(complete)),
			Remedy: fmt.Sprintf("flunq show %s --tenant %s shows it; what happens to it next puts it on the list", ids[0], tenant),
		})
	}
}

// asFar tells that not all keys were searched.
// keyScans bounds the search for streams that nothing lists: in thousands of keys.
const keyScans = 10

func asFar(complete bool) string {
	if complete {
		return ""
	}
	return fmt.Sprintf(" (as far as some %d,000 keys say)", keyScans)
}

// others looks for streams of the other key scheme.
func (d *doctor) others(ctx context.Context) {
	tenant, everyone := d.remote.Tenant, ""
	if d.everyone {
		tenant, everyone = "*", " -A"
	}
	found, complete, err := inspect.New(d.remote.Store).OtherStreams(ctx, tenant, keyScans)
	if err != nil {
		d.blind("other streams", "", err)
		return
	}
	if len(found) == 0 {
		d.say("other streams", isFine, "none of the key scheme tenant:*:workflow:*:events"+asFar(complete), "")
		return
	}
	f := finding{Check: "other streams", State: isDoubtful}
	for _, s := range found {
		f.Examples = append(f.Examples, s.Key)
	}
	f.Text = fmt.Sprintf("%s of the key scheme tenant:*:workflow:*:events%s, which the services do not read", history.Count(len(found), "stream"), asFar(complete))
	f.Remedy = fmt.Sprintf("flunq timers ls%s --other-streams and flunq dlq ls%s --other-streams show what stands there", everyone, everyone)
	d.add(f)
}
