package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// checkServer checks the server itself. An error means that the connection is lost.
func (d *doctor) checkServer(ctx context.Context) error {
	if d.remote.Store.Clustered() {
		return d.checkCluster(ctx)
	}
	before := time.Now()
	v, err := d.remote.Store.Server(ctx)
	if err != nil {
		return err
	}
	took := time.Since(before)
	d.server = v
	clock := ofClock(v, before.Add(took/2), took)
	var virtual dev.Clock
	if v.Version == "" && actions.AskClock(ctx, d.remote.Redis, &virtual, "SHOW") == nil && virtual.Mode == dev.Virtual {
		clock = finding{Check: "clock", State: isFine, Text: "virtual (flunq dev), now at " + cli.Moment(virtual.Now)}
	}
	latency, err := d.checkLatency(ctx)
	if err != nil {
		return err
	}
	d.add(slices.DeleteFunc(append(d.ofServer(v), clock, latency), func(f finding) bool { return f.Check == "" })...)
	return nil
}

// checkLatency measures round trips. It finds nothing if they are fast.
func (d *doctor) checkLatency(ctx context.Context) (f finding, err error) {
	const slow, samples = 10 * time.Millisecond, 5
	shortest := time.Hour
	for range samples {
		before := time.Now()
		if err := d.remote.Redis.Echo(ctx, "").Err(); err != nil {
			return f, err
		}
		if shortest = min(shortest, time.Since(before)); shortest < slow {
			return f, nil
		}
	}
	return finding{
		Check: "latency", State: isDoubtful,
		Text:   fmt.Sprintf("a round trip from this machine takes %s: each task needs several, one after another", history.Duration(shortest.Round(time.Millisecond))),
		Remedy: "run flunq near its Redis; redis-cli --latency measures it on another machine, redis-cli SLOWLOG GET shows whether commands are slow",
	}, nil
}

// ofServer checks what a server says about itself. A finding without a check says nothing.
func (d *doctor) ofServer(v store.Server) []finding {
	return []finding{ofVersion(v), ofRole(v), ofPersistence(v), ofFailover(v, d.settings.Confirmed), ofEviction(v), ofMemory(v), ofClients(v)}
}

// ofVersion checks the kind and version of the server.
func ofVersion(v store.Server) finding {
	f := finding{Check: "redis", State: isFine}
	if v.Version == "" {
		f.State, f.Text = isUnknown, "its version is not reported (as in 'flunq dev', or without the permission for INFO)"
		return f
	}
	f.Text = "Redis " + v.Version
	if v.Mode != "" {
		f.Text += ", " + v.Mode
	}
	if v.Uptime >= 0 {
		f.Text += ", up for " + history.Duration(v.Uptime)
	}
	major, rest, _ := strings.Cut(v.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	number, err := strconv.Atoi(major)
	part, otherErr := strconv.Atoi(minor)
	switch {
	case err != nil || otherErr != nil:
		f.State = isUnknown
	case number < 6 || number == 6 && part < 2:
		f.State, f.Text, f.Remedy = isBad, f.Text+": too old, 6.2 is needed", "upgrade it to 7.0 or later"
	case number < 7:
		f.State, f.Remedy = isDoubtful, "it works; 7.0 or later is recommended and reports how far groups lag"
	}
	return f
}

// ofRole checks whether the server accepts writes.
func ofRole(v store.Server) finding {
	f := finding{Check: "role", State: isFine, Text: v.Role}
	switch {
	case v.Loading == "yes":
		f.State, f.Text, f.Remedy = isDoubtful, "it is still loading its data", "wait, as the services do"
	case v.Role == "replica":
		f.State, f.Text = isBad, "a replica, which accepts no writes"
		f.Remedy = fmt.Sprintf("use its master at %s, or redis-sentinel:// which finds it", v.Master)
	case v.Refuses != "" && !full(v):
		f.State, f.Text = isBad, cmp.Or(v.Role, "server")+" that refuses writes: "+v.Refuses
		f.Remedy = "remove the cause: until then the services wait"
	case v.Role == "":
		f.State, f.Text = isUnknown, "its role is not reported"
	case v.Replicas >= 0:
		f.Text += " with " + history.Count(int(v.Replicas), "replica")
	}
	return f
}

// full reports whether the finding about the memory says why the server refuses writes.
func full(v store.Server) bool { return v.Refuses == store.MemoryFull && v.Used >= 0 }

const appendOnly = "redis-cli CONFIG SET appendonly yes; " + everySecond

const everySecond = "redis-cli CONFIG SET appendfsync everysec; redis-cli CONFIG REWRITE"

// ofPersistence reports what a crash would lose.
func ofPersistence(v store.Server) finding {
	f := finding{Check: "persistence", State: isFine}
	gap, known := v.SnapshotInterval()
	switch {
	case v.Trouble != "":
		f.State, f.Text = isBad, v.Trouble+": a crash may lose everything written since"
		f.Remedy = "see the log of Redis and the free space on its disk; INFO persistence shows when it has recovered"
	case v.AppendOnly == "always":
		f.Text = "append-only file, flushed always: neither a crash nor a power cut loses acknowledged writes"
	case v.AppendOnly == "everysec":
		f.Text = "append-only file, flushed every second: a power cut loses the last second; kill -9 of Redis nothing"
	case v.AppendOnly == "no":
		f.State, f.Text = isDoubtful, "append-only file, flushed by the operating system: a power cut may lose half a minute; kill -9 of Redis nothing"
		f.Remedy = everySecond
	case v.AppendOnly == "on":
		f.State, f.Text = isUnknown, "append-only file, but Redis does not report how often it is flushed: kill -9 of Redis loses nothing, a power cut between a second and half a minute"
	case v.AppendOnly == "":
		f.State, f.Text = isUnknown, "not reported: the effect of a crash is unknown"
	case v.Saves == "off":
		f.State, f.Text, f.Remedy = isBad, "none: a crash of Redis loses everything since start", appendOnly
	case known:
		f.State, f.Remedy = isDoubtful, appendOnly
		f.Text = "snapshots only: a crash of Redis loses up to " + history.Count(int((gap+time.Minute-1)/time.Minute), "minute") + lastSave(v)
	default:
		f.State, f.Remedy = isUnknown, "enable the append-only file in the configuration of this Redis"
		f.Text = "no append-only file, and Redis does not report when snapshots are taken: a crash loses everything since the last one" + lastSave(v)
	}
	return f
}

// lastSave describes the age of the last snapshot.
func lastSave(v store.Server) string {
	if v.LastSave.IsZero() || v.Time.Before(v.LastSave) {
		return ""
	}
	text := "; the last one is " + history.Duration(v.Time.Sub(v.LastSave).Round(time.Second)) + " old"
	if v.Unsaved > 0 {
		text += ", " + history.Count(v.Unsaved, "change") + " ago"
	}
	return text
}

// ofFailover reports what a failover would lose. A write counts as done when confirmed replicas have it
// (REDIS_WAIT).
func ofFailover(v store.Server, confirmed int) finding {
	if v.Role != "master" || max(v.Replicas, int64(confirmed)) < 1 {
		return finding{}
	}
	f := finding{Check: "failover", State: isDoubtful}
	f.Text = "replication is asynchronous: a failover may lose the last writes, and a master that is cut off accepts more writes that are lost"
	switch {
	case int64(confirmed) > v.Replicas:
		f.State, f.Remedy = isBad, "connect replicas, or lower REDIS_WAIT"
		f.Text = fmt.Sprintf("REDIS_WAIT=%d, but the master has %s: processes with this setting count no write as done", confirmed, history.Count(int(v.Replicas), "replica"))
	case confirmed != 0:
		f.State, f.Text = isFine, "replication is asynchronous, but processes with REDIS_WAIT, as it is set here, count no write as done before replicas have it"
	case v.Guarded > 0:
		f.State = isFine
		f.Text = fmt.Sprintf("a failover may lose the last writes; a master without %s accepts none", history.Count(int(v.Guarded), "replica"))
	case v.Guarded == 0:
		f.Remedy = "redis-cli CONFIG SET min-replicas-to-write 1; redis-cli CONFIG REWRITE; or let flunq wait for replicas (REDIS_WAIT)"
	default:
		f.State = isUnknown
	}
	return f
}

// ofEviction checks whether Redis may evict keys.
func ofEviction(v store.Server) finding {
	f := finding{Check: "eviction", State: isFine, Text: v.Policy}
	switch {
	case v.Policy == "":
		f.State, f.Text = isUnknown, "its eviction policy is not reported"
		f.Remedy = "make sure that maxmemory-policy is noeviction in the configuration of this Redis"
		if v.Version == "" {
			f.Remedy = ""
		}
	case v.Evicts():
		f.State, f.Remedy = isBad, store.NoEviction
		f.Text += ": when it is full, timers and histories vanish without an error"
	case v.Evicted > 0:
		f.State, f.Text = isDoubtful, fmt.Sprintf("%s: %s dropped since start", v.Policy, history.Count(v.Evicted, "key"))
		f.Remedy = "they had an expiry, or the policy was different; " + store.NoEviction
	case v.Policy != "noeviction":
		f.State, f.Text = isDoubtful, v.Policy+": keys with an expiry are dropped first; flunq's have none, but others' may"
		f.Remedy = store.NoEviction
	default:
		f.Text += ": when it is full, writes are refused and nothing is lost"
	}
	return f
}

// ofMemory checks how much memory is left.
func ofMemory(v store.Server) finding {
	const much, most, fragmented = 80, 95, 100 << 20
	f := finding{Check: "memory", State: isFine}
	if v.Used < 0 {
		f.State, f.Text = isUnknown, "its memory use is not reported"
		return f
	}
	space, of := v.Limit, "maxmemory"
	if space == 0 {
		space, of = v.Machine, "memory of the machine, no maxmemory"
	}
	percent := int64(0)
	f.Text = mebibytes(v.Used)
	if space > 0 {
		percent = v.Used * 100 / space
		f.Text = fmt.Sprintf("%s of %s (%s), %d %%", f.Text, mebibytes(space), of, percent)
	}
	if full(v) {
		f.Text += ": it refuses writes"
	}
	switch {
	case percent >= most, full(v):
		f.State, f.Remedy = isBad, "give it more memory (redis-cli CONFIG SET maxmemory …), or drop dead letters: when it is full the services wait"
	case percent >= much:
		f.State, f.Remedy = isDoubtful, "give it more memory (redis-cli CONFIG SET maxmemory …), before it is full and the services wait"
	case v.Fragmentation > 2 && v.Used > fragmented:
		f.State = isDoubtful
		f.Text += fmt.Sprintf("; it occupies %.1f times as much memory", v.Fragmentation)
		f.Remedy = "redis-cli CONFIG SET activedefrag yes, or redis-cli MEMORY PURGE"
	}
	return f
}

func mebibytes(n int64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// ofClients checks whether more processes can connect.
func ofClients(v store.Server) finding {
	if v.Clients < 0 || v.MostClients <= 0 {
		return finding{}
	}
	f := finding{Check: "clients", State: isFine, Text: history.Number(v.Clients) + " of " + history.Number(v.MostClients)}
	if v.Clients*10 >= v.MostClients*9 {
		f.State, f.Remedy = isDoubtful, "redis-cli CONFIG SET maxclients …: at the limit, connections are rejected"
	}
	return f
}

// ofClock compares Redis' clock with that of this machine; within is how long reading it took.
func ofClock(v store.Server, now time.Time, within time.Duration) finding {
	f := finding{Check: "clock", State: isFine}
	if v.Time.IsZero() {
		f.State, f.Text = isUnknown, "its time is not reported"
		return f
	}
	ahead := v.Time.Sub(now)
	if ahead.Abs() <= time.Second+within/2 {
		f.Text = "differs from this machine's by less than a second"
		return f
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	f.State, f.Text = isDoubtful, fmt.Sprintf("%s %s this machine's: timers fire by the clock of Redis", history.Duration(ahead.Abs().Round(time.Second)), way)
	f.Remedy = "check that both machines follow NTP (timedatectl)"
	return f
}
