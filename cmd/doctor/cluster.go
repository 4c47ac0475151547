package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// checkCluster checks a Redis Cluster and each of its masters.
func (d *doctor) checkCluster(ctx context.Context) error {
	before := time.Now()
	c, err := d.remote.Store.Cluster(ctx)
	if err != nil {
		return err
	}
	took := time.Since(before)
	d.masters = c.Masters
	d.add(ofCluster(c))
	var all [][]finding // of each master, in the same order
	var names []string
	for _, m := range c.Masters {
		if m.Err != nil {
			d.report("redis", isBad, m.Address+": "+m.Err.Error(), "")
			continue
		}
		names = append(names, m.Address)
		all = append(all, append(d.ofServer(m.Server), ofClock(m.Server, before.Add(took/2), took)))
		d.server = m.Server
	}
	for n := 0; len(all) > 0 && n < len(all[0]); n++ {
		every := "each master"
		if len(all) < len(c.Masters) {
			every = "each other master"
		}
		d.add(ofMasters(every, names, all, n)...)
	}
	d.add(ofClocks(c, took))
	return nil
}

// ofCluster checks that each slot has a master, and each master a replica.
func ofCluster(c store.Cluster) finding {
	var alone []string
	replicas := 0
	for _, m := range c.Masters {
		replicas += len(m.Replicas)
		if len(m.Replicas) == 0 {
			alone = append(alone, m.Address)
		}
	}
	f := finding{Check: "cluster", State: isFine}
	f.Text = fmt.Sprintf("%s, %s", history.Count(len(c.Masters), "master"), history.Count(replicas, "replica"))
	switch {
	case c.Uncovered > 0:
		f.State, f.Text = isBad, f.Text+fmt.Sprintf(": %s of %s have no master, and ", history.Number(int64(c.Uncovered)), history.Count(store.Slots, "slot"))
		f.Remedy = "bring their node back, or give the slots to another one (redis-cli --cluster fix)"
		if c.Down {
			f.Text += "every tenant waits, since the cluster is down"
			f.Remedy += "; with cluster-require-full-coverage no, the tenants of other slots continue meanwhile"
		} else {
			f.Text += "their tenants wait"
		}
	case c.Down:
		f.State, f.Text = isBad, f.Text+": the cluster is down (cluster_state:fail), and every tenant waits"
		f.Remedy = "bring back the masters that the others cannot reach: the cluster needs a majority of them"
	case len(c.Gone) > 0:
		f.State, f.Text = isDoubtful, f.Text+"; out of reach: "+strings.Join(c.Gone, ", ")
		f.Remedy = "bring them back, or make the others forget them (CLUSTER FORGET)"
	case len(alone) > 0:
		f.State, f.Text = isDoubtful, f.Text+"; without a replica: "+strings.Join(alone, ", ")
		f.Remedy = "add a replica to each (redis-cli --cluster add-node … --cluster-slave): when such a master dies, its tenants wait"
	default:
		f.Text += ", each slot has a master"
	}
	return f
}

// ofMasters joins the n-th findings of the masters: equal findings share a line, and so do healthy
// ones. every names all of them.
func ofMasters(every string, names []string, all [][]finding, n int) (out []finding) {
	var of [][]string        // the masters of each finding
	differ := map[int]bool{} // findings whose texts differ
	for i, findings := range all {
		f := findings[n]
		if f.Check == "" {
			continue
		}
		at := slices.IndexFunc(out, func(other finding) bool {
			return other.State == f.State && (f.State == isFine || other.Text == f.Text && other.Remedy == f.Remedy)
		})
		if at < 0 {
			at, out, of = len(out), append(out, f), append(of, nil)
		}
		of[at] = append(of[at], names[i])
		differ[at] = differ[at] || out[at].Text != f.Text
	}
	for i := range out {
		if differ[i] {
			out[i].Text = of[i][0] + ": " + out[i].Text + "; the others are fine, too"
			continue
		}
		who := every
		if len(of[i]) < len(all) {
			who = strings.Join(of[i], ", ")
		}
		out[i].Text = who + ": " + out[i].Text
	}
	return out
}

// ofClocks compares the clocks of the masters.
func ofClocks(c store.Cluster, within time.Duration) finding {
	f := finding{Check: "clocks", State: isFine, Text: "the masters' clocks agree to within a second"}
	known := slices.DeleteFunc(slices.Clone(c.Masters), func(m store.Master) bool { return m.Time.IsZero() })
	if len(known) < 2 {
		return finding{Check: "clocks", State: isUnknown, Text: "fewer than two masters report their time"}
	}
	if len(known) < len(c.Masters) {
		f.Text = "the other masters' clocks agree to within a second"
	}
	byTime := func(a, b store.Master) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Address, b.Address)) }
	first, last := slices.MinFunc(known, byTime), slices.MaxFunc(known, byTime)
	if apart := last.Time.Sub(first.Time); apart > time.Second+within {
		f.State = isDoubtful
		f.Text = fmt.Sprintf("%s is %s ahead of %s: a tenant's timers follow the clock of its own master, so a failover or a move to another master shifts them",
			last.Address, history.Duration(apart.Round(time.Second)), first.Address)
		f.Remedy = "check that all machines follow NTP (timedatectl)"
	}
	return f
}

// placement reports how many of all registered tenants each master has.
func (d *doctor) placement(ctx context.Context) {
	counts := map[string]int{}
	for _, m := range d.masters {
		counts[m.Address] = 0
	}
	tenants, err := d.remote.Store.Tenants(ctx)
	if err != nil {
		d.unchecked("placement", "", err)
		return
	}
	for _, tenant := range tenants {
		at, err := d.remote.Store.AddressOf(ctx, tenant)
		if err != nil {
			d.unchecked("placement", tenant, err)
			return
		}
		counts[at]++
	}
	var parts []string
	for at, n := range counts {
		parts = append(parts, at+": "+history.Count(n, "tenant"))
	}
	slices.Sort(parts)
	d.report("placement", isFine, strings.Join(parts, ", "), "")
}
