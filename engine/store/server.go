package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

// Server is what a Redis reports about itself. A field that it does not report is empty, -1 or zero.
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

// Evicts reports whether Redis may evict keys without an expiry, as all of flunq's are.
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
	info, clock := pipe.Info(ctx), pipe.Time(ctx)
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

// ConfirmWrites makes a client of Dial wait until writes have reached replicas, so that a failover
// cannot lose them; with wire.AllReplicas, all that are connected. A write that takes longer than
// confirmTime fails with wire.ErrUnconfirmed, which is temporary: the services retry and find what
// was done. Call it before using the client.
func ConfirmWrites(rdb wire.Redis, replicas int) {
	if replicas != 0 {
		wire.Confirm(rdb, &wire.Confirmation{Replicas: replicas, Patience: confirmTime, Needed: writes})
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
// cluster it checks each master.
func (s *Store) CheckServer(ctx context.Context) error {
	return wire.EachMaster(ctx, s.rdb.Redis, func(ctx context.Context, node wire.Redis, address string) error {
		v, err := serverOf(ctx, node)
		switch {
		case err != nil:
			return err
		case v.Mode == "cluster" && !s.Clustered():
			return errClusterNode
		case v.Mode == "sentinel":
			return errors.New("this is a Sentinel, which holds no data: use redis-sentinel://host:26379/MASTER")
		case !v.Evicts():
			return nil
		}
		if address != "" {
			address = " at " + address
		}
		return fmt.Errorf("redis%s has the maxmemory-policy %s, by which timers and histories vanish without an error: %s", address, v.Policy, NoEviction)
	})
}

// writeProbe writes nothing, but its first line does not say so: Redis 7 refuses to run it whenever it
// would refuse a write.
const writeProbe = "#!lua\nreturn 1"

// RefusedWrites returns why Redis would refuse a write at the moment, "" if it would not. It writes
// nothing. A Redis older than 7 does not say.
func RefusedWrites(ctx context.Context, s *Store) (reason string, err error) {
	err = s.rdb.Eval(ctx, writeProbe, []string{s.ClockKey()}).Err()
	if _, replied := errors.AsType[redis.Error](err); err != nil && !replied {
		return "", Failed("ask whether it accepts writes", err)
	}
	switch {
	case err == nil:
		return "", nil
	case redis.IsReadOnlyError(err):
		return "it is a read-only replica", nil
	case redis.IsOOMError(err):
		return "its memory is full (maxmemory)", nil
	case redis.IsNoReplicasError(err):
		return "too few replicas are connected (min-replicas-to-write)", nil
	case redis.IsMasterDownError(err):
		return "it is a replica that has lost its master", nil
	case strings.HasPrefix(err.Error(), "MISCONF "):
		return "it cannot save its data to disk (MISCONF)", nil
	default:
		return "", nil // an older version does not know such a first line
	}
}

// NoEviction says how to make Redis reject writes instead of evicting keys.
const NoEviction = "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; " +
	"where a provider runs it, set maxmemory-policy there"

// Dial opens a client that never retries a command by itself. The address is redis://,
// rediss:// (with TLS) or host:port; or, for a master monitored by sentinels,
// redis-sentinel:// or rediss-sentinel:// with the hosts of the sentinels, then /NAME of the
// master, then /DB; or, for a Redis Cluster, redis-cluster:// or rediss-cluster:// with the hosts
// of some of its nodes. The error wraps ErrUnreachable if Redis does not answer.
func Dial(ctx context.Context, address string) (wire.Redis, error) {
	rdb, err := client(address)
	if err != nil {
		return nil, err
	}
	if err := check(ctx, rdb); err != nil {
		// The error of the check says more than that of closing.
		_ = rdb.Close()
		if errors.Is(err, errClusterNode) || errors.Is(err, errNoCluster) {
			return nil, fmt.Errorf("redis address %s: %w", Redacted(address), err)
		}
		return nil, fmt.Errorf("%w at %s: %w%s", ErrUnreachable, Redacted(address), err, aboutTLS(address, err))
	}
	return rdb, nil
}

// aboutTLS returns what else may be wrong with an address if Redis does not answer as if only one
// side used TLS.
func aboutTLS(address string, err error) string {
	switch encrypted := strings.HasPrefix(address, "rediss"); {
	case !encrypted && errors.Is(err, io.EOF):
		return "; if it expects TLS, the address must begin with rediss"
	case encrypted && errors.Is(err, context.DeadlineExceeded):
		return "; if it does not use TLS, the address must begin with redis"
	default:
		return ""
	}
}

var (
	errClusterNode = errors.New("this Redis is a node of a Redis Cluster: write redis-cluster://host:port,host:port, or with TLS rediss-cluster://…, with some of its nodes")
	errNoCluster   = errors.New("this Redis is not part of a Redis Cluster: write redis://host:port")
)

// check returns an error if Redis does not answer, or is a cluster node although the client is not a
// cluster client, or vice versa.
func check(ctx context.Context, rdb wire.Redis) error {
	if wire.Clustered(rdb) {
		err := rdb.ClusterInfo(ctx).Err()
		if err != nil && strings.Contains(err.Error(), "cluster support disabled") {
			return errNoCluster
		}
		return err //nolint:wrapcheck // Dial adds the address
	}
	pipe := rdb.Pipeline()
	ping, info := pipe.Ping(ctx), pipe.Info(ctx, "cluster")
	_, err := pipe.Exec(ctx)
	switch {
	case strings.Contains(info.Val(), "cluster_enabled:1"):
		return errClusterNode
	case ping.Err() == nil && info.Err() != nil:
		return nil //nolint:nilerr // not every user may ask for this information
	default:
		return err //nolint:wrapcheck // Dial adds the address
	}
}

// CheckAddress returns an error if Dial cannot parse an address.
func CheckAddress(address string) error {
	rdb, err := client(address)
	if err != nil {
		return err
	}
	return rdb.Close() //nolint:wrapcheck // nothing was opened
}

func client(address string) (wire.Redis, error) {
	scheme, _, _ := strings.Cut(address, "://")
	if strings.HasSuffix(scheme, clusterSuffix) {
		opts, err := clusterOptions(address)
		if err != nil {
			return nil, err
		}
		return wire.NewCluster(opts), nil
	}
	if strings.HasSuffix(scheme, sentinelSuffix) {
		opts, err := failoverOptions(address)
		if err != nil {
			return nil, err
		}
		return redis.NewFailoverClient(opts), nil
	}
	opts, err := clientOptions(address)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(opts), nil
}

func clientOptions(address string) (*redis.Options, error) {
	if !strings.Contains(address, "://") {
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(address, "6379")
		}
		address = "redis://" + address
	}
	opts, err := redis.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("redis address %s: want redis://host:port/db, rediss://…, host:port, redis-cluster://host:port,host:port or redis-sentinel://host:26379/MASTER", Redacted(address))
	}
	if opts.TLSConfig != nil {
		opts.TLSConfig.MinVersion = tls.VersionTLS12
	}
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.PipelinePoolSize = -1
	opts.DisableIdentity = true
	opts.ReadTimeout = 2 * longestBlock
	if opts.PoolSize == 0 {
		opts.PoolSize = connections
	}
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts, nil
}

const sentinelSuffix = "-sentinel"

// failoverOptions returns the options of a client that asks sentinels for the master.
func failoverOptions(address string) (*redis.FailoverOptions, error) {
	wrong := fmt.Errorf("redis address %s: want redis-sentinel://host:26379,host:26379/MASTER/DB", Redacted(address))
	scheme, rest, _ := strings.Cut(address, "://")
	user, rest, known := cutLast(rest, "@")
	hosts, path, _ := strings.Cut(rest, "/")
	master, db, _ := strings.Cut(path, "/")
	var errUser error
	opts := &redis.FailoverOptions{
		MasterName: master, SentinelAddrs: strings.Split(hosts, ","),
		MaxRetries: -1, DialerRetries: 1, PipelinePoolSize: -1, DisableIdentity: true,
		ReadTimeout: 2 * longestBlock, PoolSize: connections,
	}
	if known {
		if opts.Username, opts.Password, errUser = credentials(user); errUser != nil {
			return nil, wrong
		}
	}
	if scheme == "rediss"+sentinelSuffix {
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	} else if scheme != "redis"+sentinelSuffix {
		return nil, wrong
	}
	var err error
	if db != "" {
		opts.DB, err = strconv.Atoi(db)
	}
	if err != nil || hosts == "" || master == "" {
		return nil, wrong
	}
	addPort(opts.SentinelAddrs, "26379")
	return opts, nil
}

// credentials reads the part of an address before the hosts.
func credentials(text string) (user, password string, err error) {
	name, secret, _ := strings.Cut(text, ":")
	user, errName := url.PathUnescape(name)
	password, errPassword := url.PathUnescape(secret)
	return user, password, errors.Join(errName, errPassword)
}

// addPort adds a port to hosts without one.
func addPort(hosts []string, port string) {
	for i, host := range hosts {
		if _, _, err := net.SplitHostPort(host); err != nil {
			hosts[i] = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
	}
}

const clusterSuffix = "-cluster"

// Times of a cluster client, which never blocks in a read. They bound how long a lost node delays
// commands to the others.
const (
	clusterDial   = time.Second
	clusterAnswer = 5 * time.Second
	clusterReload = 500 * time.Millisecond // interval at which it asks which node has which slots
)

// clusterOptions returns the options of a client of a Redis Cluster.
func clusterOptions(address string) (*redis.ClusterOptions, error) {
	wrong := fmt.Errorf("redis address %s: want redis-cluster://user:password@host:port,host:port, without a database", Redacted(address))
	scheme, rest, _ := strings.Cut(address, "://")
	user, rest, known := cutLast(rest, "@")
	hosts := strings.Split(strings.TrimSuffix(rest, "/"), ",")
	opts := &redis.ClusterOptions{
		Addrs: hosts, MaxRetries: -1, DialerRetries: 1, PipelinePoolSize: -1, DisableIdentity: true,
		DialTimeout: clusterDial, ReadTimeout: clusterAnswer, PoolSize: connections, ClusterStateReloadInterval: clusterReload,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if known {
		var err error
		if opts.Username, opts.Password, err = credentials(user); err != nil {
			return nil, wrong
		}
	}
	switch scheme {
	case "redis" + clusterSuffix:
	case "rediss" + clusterSuffix:
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return nil, wrong
	}
	for _, host := range hosts {
		if host == "" || strings.ContainsAny(host, "/?#@ ") {
			return nil, wrong
		}
	}
	addPort(hosts, "6379")
	return opts, nil
}

// cutLast cuts text around the last mark; without a mark, all of it is after.
func cutLast(text, mark string) (before, after string, found bool) {
	if at := strings.LastIndex(text, mark); at >= 0 {
		return text[:at], text[at+len(mark):], true
	}
	return "", text, false
}

// connections is the maximum number of connections. It exceeds the number of service instances of a
// process, each of which may block in a read.
const connections = 1024

// Unavailable reports whether an error means that Redis is currently unavailable: nothing answers at
// its address, or it is still starting. A wrong password is not such an error.
func Unavailable(err error) bool {
	if !errors.Is(err, ErrUnreachable) {
		return Temporary(err)
	}
	_, replied := errors.AsType[redis.Error](err)
	return !replied || temporary(err)
}

// Redacted returns an address without its password and other secrets.
func Redacted(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	}
	if user, host, found := cutLast(rest, "@"); found && strings.Contains(user, "?") {
		rest = "***" // either may hold the password
	} else if found {
		rest = "***@" + host
	}
	rest, query, queried := strings.Cut(rest, "?")
	if queried {
		options := strings.Split(query, "&")
		for i, option := range options {
			name, _, _ := strings.Cut(option, "=")
			if lower := strings.ToLower(name); strings.Contains(lower, "pass") || strings.Contains(lower, "user") || strings.Contains(lower, "auth") {
				options[i] = name + "=***"
			}
		}
		rest += "?" + strings.Join(options, "&")
	}
	if !ok {
		return rest
	}
	return scheme + "://" + rest
}

// temporary reports errors of a Redis that will recover: it is loading its data, follows another
// master, is full, or has lost its replicas.
func temporary(err error) bool {
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsOOMError(err) ||
		redis.IsMasterDownError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsNoReplicasError(err) || redis.IsMaxClientsError(err) || errors.Is(err, redis.ErrPoolTimeout)
}
