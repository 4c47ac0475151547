package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flunq.io/flunq/engine/store/wire"
)

// Dial opens a client that never retries a command by itself. The address is redis://,
// rediss:// (with TLS) or host:port; or, for a master monitored by sentinels,
// redis-sentinel:// or rediss-sentinel:// with the hosts of the sentinels, then /NAME of the
// master, then /DB; or, for a Redis Cluster, redis-cluster:// or rediss-cluster:// with the hosts
// of some of its nodes. With TLS, ?tls_ca=FILE&tls_cert=FILE&tls_key=FILE names a CA and a client certificate. The
// error wraps ErrUnreachable if Redis does not respond.
func Dial(ctx context.Context, address string) (wire.Redis, error) {
	rdb, err := client(address)
	if err != nil {
		return nil, err
	}
	if err := check(ctx, rdb); err != nil {
		// The error of the check says more than that of closing.
		_ = rdb.Close()
		if errors.Is(err, errClusterNode) || errors.Is(err, errNoCluster) || errors.Is(err, errSentinel) {
			return nil, fmt.Errorf("redis address %s: %w", Redacted(address), err)
		}
		return nil, fmt.Errorf("%w at %s: %w%s", ErrUnreachable, Redacted(address), err, aboutAddress(address, err))
	}
	return rdb, nil
}

// aboutAddress returns what else may be wrong: Redis does not respond as if only one side used TLS,
// the sentinels do not know the master, or a certificate is not accepted.
func aboutAddress(address string, err error) string {
	switch encrypted := strings.HasPrefix(address, "rediss"); {
	case errors.Is(err, redis.Nil):
		return "; a sentinel answers, but monitors no master with the name in the address"
	case !encrypted && errors.Is(err, io.EOF):
		return "; if it expects TLS, the address must begin with rediss"
	case !encrypted && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		return "; it closes new connections: it may have too many clients (maxclients)"
	case encrypted && errors.Is(err, context.DeadlineExceeded):
		return "; if it does not use TLS, the address must begin with redis"
	case is[x509.UnknownAuthorityError](err):
		return "; tls_ca in the address can name the file of a CA that the system does not know: " + certificateExample
	case is[x509.CertificateInvalidError](err):
		return "; Redis needs another certificate, or the clock of this machine is wrong"
	case encrypted && (strings.Contains(err.Error(), "tls: certificate required") || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		// The connection may be closed before the alert has been read.
		return "; if it requires a client certificate, tls_cert and tls_key in the address name its files: " + certificateExample
	default:
		return ""
	}
}

const certificateExample = "rediss://host:6379?tls_ca=ca.pem&tls_cert=client.pem&tls_key=client.key"

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

var (
	errClusterNode = errors.New("this Redis is a node of a Redis Cluster: write redis-cluster://host:port,host:port, or with TLS rediss-cluster://…, with some of its nodes")
	errNoCluster   = errors.New("this Redis is not part of a Redis Cluster: write redis://host:port")
	errSentinel    = errors.New("this is a Sentinel, which holds no data: write redis-sentinel://host:26379/MASTER")
)

// check returns an error if Redis does not respond, is a Sentinel, or is a cluster node although the
// client is not a cluster client, or vice versa.
func check(ctx context.Context, rdb wire.Redis) error {
	if wire.Clustered(rdb) {
		err := wire.AnyMaster(ctx, rdb, func(ctx context.Context, master wire.Redis) error { return master.ClusterInfo(ctx).Err() })
		if err != nil && strings.Contains(err.Error(), "cluster support disabled") {
			return errNoCluster
		}
		return err
	}
	pipe := rdb.Pipeline()
	ping, cluster, sentinel := pipe.Ping(ctx), pipe.Info(ctx, "cluster"), pipe.Info(ctx, "sentinel")
	_, err := pipe.Exec(ctx)
	switch {
	case strings.Contains(cluster.Val(), "cluster_enabled:1"):
		return errClusterNode
	case strings.Contains(sentinel.Val(), "sentinel_masters:"):
		return errSentinel
	case unsaved(ping.Err()):
		return nil // it can be read
	case ping.Err() == nil && (cluster.Err() != nil || sentinel.Err() != nil):
		return nil //nolint:nilerr // not every user may ask for this information
	default:
		return err
	}
}

// CheckAddress returns an error if Dial cannot parse an address.
func CheckAddress(address string) error {
	rdb, err := client(address)
	if err != nil {
		return err
	}
	return rdb.Close()
}

func client(address string) (wire.Redis, error) {
	full := address
	address, files := cutCertificates(address)
	use := func(config *tls.Config) error {
		if err := files.use(config); err != nil {
			return fmt.Errorf("redis address %s: %w", Redacted(full), err)
		}
		return nil
	}
	scheme, _, _ := strings.Cut(address, "://")
	if strings.HasSuffix(scheme, clusterSuffix) {
		opts, err := clusterOptions(address)
		if err == nil {
			err = use(opts.TLSConfig)
		}
		if err != nil {
			return nil, err
		}
		return wire.NewCluster(opts), nil
	}
	if strings.HasSuffix(scheme, sentinelSuffix) {
		opts, err := failoverOptions(address)
		if err == nil {
			err = use(opts.TLSConfig)
		}
		if err != nil {
			return nil, err
		}
		return wire.NewFailover(opts), nil
	}
	opts, err := clientOptions(address)
	if err == nil {
		err = use(opts.TLSConfig)
	}
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
	if opts.Network == "tcp" && !havePorts(opts.Addr) {
		return nil, fmt.Errorf("redis address %s: the port must be 1 to 65535", Redacted(address))
	}
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.PipelinePoolSize = -1
	opts.DisableIdentity = true
	opts.ReadTimeout = 2 * longestBlock
	opts.PoolSize = cmp.Or(opts.PoolSize, connections)
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts, nil
}

const (
	sentinelSuffix = "-sentinel"
	clusterSuffix  = "-cluster"
)

// severalHosts is an address with several hosts: of sentinels, or of nodes of a cluster.
type severalHosts struct {
	user, password string
	tls            *tls.Config // nil: without TLS
	hosts          []string    // each with a port
	path           string      // after the hosts, without its first slash
}

// parseSeveral parses an address whose scheme has a suffix; false if it is invalid. Hosts without a port
// get a default one.
func parseSeveral(address, suffix, port string) (a severalHosts, ok bool) {
	scheme, rest, _ := strings.Cut(address, "://")
	user, rest, known := cutLast(rest, "@")
	if known {
		name, secret, _ := strings.Cut(user, ":")
		var errName, errPassword error
		a.user, errName = url.PathUnescape(name)
		a.password, errPassword = url.PathUnescape(secret)
		if errName != nil || errPassword != nil {
			return a, false
		}
	}
	if scheme == "rediss"+suffix {
		a.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	} else if scheme != "redis"+suffix {
		return a, false
	}
	hosts, path, _ := strings.Cut(rest, "/")
	a.hosts, a.path = strings.Split(hosts, ","), path
	if slices.ContainsFunc(a.hosts, func(host string) bool { return host == "" || strings.ContainsAny(host, "?#@ ") }) {
		return a, false
	}
	addPort(a.hosts, port)
	return a, havePorts(a.hosts...)
}

// failoverOptions returns the options of a client that asks sentinels for the master.
func failoverOptions(address string) (*redis.FailoverOptions, error) {
	a, ok := parseSeveral(address, sentinelSuffix, "26379")
	master, text, _ := strings.Cut(a.path, "/")
	db, err := strconv.Atoi(cmp.Or(text, "0"))
	if !ok || err != nil || master == "" {
		return nil, fmt.Errorf("redis address %s: want redis-sentinel://host:26379,host:26379/MASTER/DB", Redacted(address))
	}
	return &redis.FailoverOptions{
		MasterName: master, SentinelAddrs: a.hosts, Username: a.user, Password: a.password, TLSConfig: a.tls, DB: db,
		MaxRetries: -1, DialerRetries: 1, PipelinePoolSize: -1, DisableIdentity: true,
		ReadTimeout: 2 * longestBlock, PoolSize: connections,
	}, nil
}

// Times of a cluster client, which never blocks in a read. They bound how long a lost node delays
// commands to the others.
const (
	clusterDial   = time.Second
	clusterAnswer = 5 * time.Second
	clusterReload = 500 * time.Millisecond // interval at which it asks which node has which slots
)

// clusterOptions returns the options of a client of a Redis Cluster.
func clusterOptions(address string) (*redis.ClusterOptions, error) {
	a, ok := parseSeveral(address, clusterSuffix, "6379")
	if !ok || a.path != "" {
		return nil, fmt.Errorf("redis address %s: want redis-cluster://user:password@host:port,host:port, without a database", Redacted(address))
	}
	return &redis.ClusterOptions{
		Addrs: a.hosts, Username: a.user, Password: a.password, TLSConfig: a.tls,
		MaxRetries: -1, DialerRetries: 1, PipelinePoolSize: -1, DisableIdentity: true,
		DialTimeout: clusterDial, ReadTimeout: clusterAnswer, PoolSize: connections, ClusterStateReloadInterval: clusterReload,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}

// addPort adds a port to hosts without one.
func addPort(hosts []string, port string) {
	for i, host := range hosts {
		if _, _, err := net.SplitHostPort(host); err != nil {
			hosts[i] = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
	}
}

// havePorts reports whether each address ends with a port that can exist.
func havePorts(addresses ...string) bool {
	for _, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if n, otherErr := strconv.ParseUint(port, 10, 16); err != nil || otherErr != nil || n == 0 {
			return false
		}
	}
	return true
}

// cutLast cuts text around the last mark; without a mark, all of it is after.
func cutLast(text, mark string) (before, after string, found bool) {
	if at := strings.LastIndex(text, mark); at >= 0 {
		return text[:at], text[at+len(mark):], true
	}
	return "", text, false
}

// connections is the maximum number of connections. It exceeds the number of reads of a process that
// may block at once: the workers share two, and so do the executors, and each of up to 256 timer
// services has one.
const connections = 1024

// Unavailable reports whether an error means that Redis is currently unavailable: nothing answers at
// its address, or it is still starting. A wrong password or a missing permission is not such an error.
func Unavailable(err error) bool {
	if redis.IsPermissionError(err) {
		return false
	}
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

// unsaved reports whether Redis refuses a write, or a PING, because it cannot save its data to disk.
func unsaved(err error) bool { return redis.HasErrorPrefix(err, "MISCONF") }

// temporary reports errors of a Redis that will recover: it is loading its data, follows another
// master, is full, cannot save its data, has lost its replicas, has too many clients, or its cluster
// is down; and that no connection was free.
func temporary(err error) bool {
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsOOMError(err) || unsaved(err) ||
		redis.IsMasterDownError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsNoReplicasError(err) || redis.IsMaxClientsError(err) || errors.Is(err, redis.ErrPoolTimeout)
}
