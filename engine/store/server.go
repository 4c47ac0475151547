package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

// Server describes a Redis server, as it reports itself. A missing field is empty, -1 or zero.
type Server struct {
	Version string
	Mode    string // standalone, cluster or sentinel
	Time    time.Time
	Uptime  time.Duration

	Role     string // master or replica
	Master   string // of a replica: its host:port
	Replicas int64  // that are connected
	Guarded  int64  // minimum number of replicas for it to accept writes
	Loading  string // yes while it loads its data
	Refuses  string // why it refuses writes; "" also if it is older than 7

	AppendOnly string // off, or the fsync policy: always, everysec, no; on if that is unknown
	Saves      string // the setting save: when it takes snapshots; "off" if never
	LastSave   time.Time
	Unsaved    int64  // changes since then
	Trouble    string // why its data may not reach the disk

	Policy               string // maxmemory-policy
	Used, Limit, Machine int64  // bytes
	Fragmentation        float64
	Evicted              int64 // keys, since it started
	Clients, MostClients int64
}

// Evicts reports whether Redis may evict keys without an expiry, such as executions and timers.
func (s Server) Evicts() bool { return strings.HasPrefix(s.Policy, "allkeys-") }

// settings returns the settings to read with CONFIG GET, which may be forbidden.
func settings() []string {
	return []string{"appendfsync", "save", "maxmemory", "maxmemory-policy", "min-replicas-to-write", "maxclients"}
}

// Server reads what Redis reports about itself; on a cluster, what one of the masters reports.
// Forbidden settings are not an error.
func (s *Store) Server(ctx context.Context) (Server, error) {
	node, _, err := wire.MasterOf(ctx, s.rdb.Redis, s.ClockKey())
	if err != nil {
		return Server{}, Failed("ask about the server", err)
	}
	return serverOf(ctx, node)
}

func serverOf(ctx context.Context, node wire.Redis) (Server, error) {
	pipe := node.Pipeline()
	info, clock, probe := pipe.Info(ctx), pipe.Time(ctx), pipe.Eval(ctx, writeProbe, nil)
	replies := map[string]*redis.MapStringStringCmd{}
	for _, name := range settings() {
		replies[name] = pipe.ConfigGet(ctx, name)
	}
	_, _ = pipe.Exec(ctx) // fields of rejected commands are unknown
	for _, err := range []error{info.Err(), clock.Err()} {
		if _, refused := errors.AsType[redis.Error](err); err != nil && !refused {
			return Server{}, Failed("ask about the server", err)
		}
	}
	config := map[string]string{}
	for name, reply := range replies {
		if value, reported := reply.Val()[name]; reported {
			config[name] = value
		}
	}
	v := ReadServer(info.Val(), config)
	v.Refuses, _ = refusedWrites(probe.Err())
	v.Time = clock.Val().UTC()
	if clock.Err() != nil {
		v.Time = time.Time{}
	}
	return v, nil
}

// ReadServer parses the reply to INFO, of any version, and the known settings.
func ReadServer(info string, config map[string]string) Server {
	t := reported{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			t[name] = value
		}
	}
	for name, value := range config {
		t["config "+name] = value
	}
	v := Server{
		Version: t["redis_version"], Mode: t["redis_mode"],
		Role: t["role"], Replicas: t.number("connected_slaves"), Guarded: t.number("config min-replicas-to-write"),
		Loading: map[string]string{"0": "no", "1": "yes"}[t["loading"]],
		Unsaved: t.number("rdb_changes_since_last_save"),
		Policy:  t.first("config maxmemory-policy", "maxmemory_policy"),
		Used:    t.number("used_memory"), Limit: t.number("config maxmemory", "maxmemory"), Machine: t.number("total_system_memory"),
		Fragmentation: -1, Evicted: t.number("evicted_keys"),
		Clients: t.number("connected_clients"), MostClients: t.number("config maxclients", "maxclients"),
	}
	if v.Role == "slave" {
		v.Role, v.Master = "replica", t["master_host"]+":"+t["master_port"]
	}
	if n, err := strconv.ParseFloat(t["mem_fragmentation_ratio"], 64); err == nil {
		v.Fragmentation = n
	}
	if n := t.number("uptime_in_seconds"); n >= 0 {
		v.Uptime = time.Duration(n) * time.Second
	} else {
		v.Uptime = -1
	}
	if n := t.number("rdb_last_save_time"); n > 0 {
		v.LastSave = time.Unix(n, 0).UTC()
	}
	t.persistence(&v)
	return v
}

// reported holds the fields of INFO and the settings, those with the prefix "config ".
type reported map[string]string

// first returns the first field that exists.
func (r reported) first(names ...string) string {
	for _, name := range names {
		if value := r[name]; value != "" {
			return value
		}
	}
	return ""
}

// number returns the first field that is a number; -1 if none is.
func (r reported) number(names ...string) int64 {
	for _, name := range names {
		if n, err := strconv.ParseInt(r[name], 10, 64); err == nil {
			return n
		}
	}
	return -1
}

// persistence reads how data is written to disk.
func (r reported) persistence(v *Server) {
	switch r["aof_enabled"] {
	case "0":
		v.AppendOnly = "off"
	case "1":
		v.AppendOnly = "on"
		if how := r["config appendfsync"]; how != "" {
			v.AppendOnly = how
		}
	}
	if rules, known := r["config save"]; known {
		v.Saves = rules
		if rules == "" {
			v.Saves = "off"
		}
	}
	for _, trouble := range [][2]string{
		{"aof_last_write_status", "the last write of the append-only file failed"},
		{"aof_last_bgrewrite_status", "the append-only file could not be rewritten"},
		{"rdb_last_bgsave_status", "the last snapshot failed"},
	} {
		if status := r[trouble[0]]; status != "" && status != "ok" && v.Trouble == "" {
			v.Trouble = trouble[1]
		}
	}
}

// SnapshotInterval returns the longest time between two snapshots while data changes; false if there
// are no snapshots or the interval is unknown.
func (s Server) SnapshotInterval() (time.Duration, bool) {
	longest := time.Duration(0)
	words := strings.Fields(s.Saves)
	for i := 0; i+1 < len(words); i += 2 {
		if seconds, err := strconv.ParseInt(words[i], 10, 64); err == nil {
			longest = max(longest, time.Duration(seconds)*time.Second)
		}
	}
	return longest, longest > 0
}

// ConfirmWrites makes a client of Dial wait until writes have reached replicas so that a failover
// cannot lose them; with wire.AllReplicas, all that are connected. A write that takes longer than
// confirmTime fails with wire.ErrUnconfirmed, which is temporary: the services retry and find what
// was done. Call it before using the client.
func ConfirmWrites(rdb wire.Redis, replicas int) {
	if replicas != 0 {
		wire.Confirm(rdb, replicas, confirmTime, writes)
	}
}

// confirmTime is how long a write may take to reach the replicas.
const confirmTime = time.Second

// writes reports whether a command changes the state of executions or timers.
func writes(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "xadd":
		return true
	case "eval":
		source, _ := cmd.Args()[1].(string)
		return scripts.Writes(redis.NewScript(source).Hash())
	case "evalsha":
		hash, _ := cmd.Args()[1].(string)
		return scripts.Writes(hash)
	default:
		return false
	}
}

// CheckServer returns an error, with the remedy, if the services cannot work on this Redis: it
// belongs to a cluster although the client is not a cluster client, is a Sentinel, or may evict keys,
// so that timers and histories would vanish silently. It ignores what Redis does not report. On a
// cluster it checks each master that responds; one must.
func (s *Store) CheckServer(ctx context.Context) error {
	answered, silent := false, error(nil)
	err := wire.EachMaster(ctx, s.rdb.Redis, func(ctx context.Context, node wire.Redis, address string) error {
		v, err := serverOf(ctx, node)
		if errors.Is(err, ErrUnreachable) {
			silent = err
			return nil
		}
		answered = true
		switch {
		case err != nil:
			return err
		case v.Mode == "cluster" && !s.Clustered():
			return errClusterNode
		case v.Mode == "sentinel":
			return errSentinel
		case !v.Evicts():
			return nil
		}
		if address != "" {
			address = " at " + address
		}
		return fmt.Errorf("redis%s has the maxmemory-policy %s, by which timers and histories vanish without an error: %s", address, v.Policy, NoEviction)
	})
	if err != nil || answered {
		return err
	}
	return silent
}

// writeProbe writes nothing, but its first line does not say so: Redis 7 refuses to run it whenever it
// would refuse a write.
const writeProbe = "#!lua\nreturn 1"

// RefusedWrites returns why Redis currently refuses writes, "" if it does not. It writes
// nothing. A Redis older than 7 does not say.
func RefusedWrites(ctx context.Context, s *Store) (reason string, err error) {
	return refusedWrites(s.rdb.Eval(ctx, writeProbe, []string{s.ClockKey()}).Err())
}

// MemoryFull is the reason for which a full Redis refuses writes.
const MemoryFull = "its memory is full (maxmemory)"

func refusedWrites(err error) (reason string, _ error) {
	if _, replied := errors.AsType[redis.Error](err); err != nil && !replied {
		return "", Failed("ask whether it accepts writes", err)
	}
	switch {
	case err == nil:
		return "", nil
	case redis.IsReadOnlyError(err):
		return "it is a read-only replica", nil
	case redis.IsOOMError(err):
		return MemoryFull, nil
	case redis.IsNoReplicasError(err):
		return "too few replicas are connected (min-replicas-to-write)", nil
	case redis.IsMasterDownError(err):
		return "it is a replica that has lost its master", nil
	case redis.IsClusterDownError(err):
		return "the cluster is down (CLUSTERDOWN)", nil
	case unsaved(err):
		return "it cannot save its data to disk (MISCONF)", nil
	case redis.HasErrorPrefix(err, "ERR") && !redis.IsMaxClientsError(err):
		return "", nil // an older version does not know such a first line
	default: // it is loading its data, does not accept the password, …
		return "", Failed("ask whether it accepts writes", err)
	}
}

// WritableMasters counts the masters of a Redis Cluster, and those that respond before ctx ends and accept
// writes.
func WritableMasters(ctx context.Context, s *Store) (writable, all int, err error) {
	accepted := make(chan bool, maxMasters)
	err = wire.EachMaster(ctx, s.rdb.Redis, func(ctx context.Context, master wire.Redis, _ string) error {
		if all++; all <= maxMasters {
			go func() {
				reason, err := refusedWrites(master.Eval(ctx, writeProbe, nil).Err())
				accepted <- reason == "" && err == nil
			}()
		}
		return nil
	})
	if err != nil {
		return 0, 0, Failed("ask the masters", err)
	}
	all = min(all, maxMasters)
	for range all {
		select {
		case yes := <-accepted:
			if yes {
				writable++
			}
		case <-ctx.Done():
			return writable, all, nil
		}
	}
	return writable, all, nil
}

// maxMasters is the maximum number of masters that are asked: more than any cluster has.
const maxMasters = 1000

// NoEviction says how to make Redis reject writes instead of evicting keys.
const NoEviction = "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; " +
	"where a provider runs it, set maxmemory-policy there"
