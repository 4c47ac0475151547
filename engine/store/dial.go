package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Dial opens a client as the services need it: one that repeats no write behind
// their back. The address is redis://, rediss:// (with TLS) or host:port; or, for a
// master that sentinels watch over, redis-sentinel:// or rediss-sentinel:// with
// their hosts, then /NAME of the master, then /DB. A Redis that does not answer is
// ErrUnreachable.
func Dial(ctx context.Context, address string) (*redis.Client, error) {
	rdb, err := client(address)
	if err != nil {
		return nil, err
	}
	if err := rdb.Ping(ctx).Err(); err != nil {
		// The error of the ping says more than one of closing could.
		_ = rdb.Close()
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, Redacted(address), err)
	}
	return rdb, nil
}

func client(address string) (*redis.Client, error) {
	if scheme, _, ok := strings.Cut(address, "://"); ok && strings.HasSuffix(scheme, sentinelSuffix) {
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
		return nil, fmt.Errorf("redis address %s: want redis://host:port/db, rediss://… or host:port", Redacted(address))
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

// failoverOptions are those of a client that asks sentinels who the master is.
func failoverOptions(address string) (*redis.FailoverOptions, error) {
	wrong := fmt.Errorf("redis address %s: want redis-sentinel://host:26379,host:26379/MASTER/DB", Redacted(address))
	scheme, rest, _ := strings.Cut(address, "://")
	user, rest, known := cutLast(rest, "@")
	hosts, path, _ := strings.Cut(rest, "/")
	master, db, _ := strings.Cut(path, "/")
	opts := &redis.FailoverOptions{
		MasterName: master, SentinelAddrs: strings.Split(hosts, ","),
		MaxRetries: -1, DialerRetries: 1, PipelinePoolSize: -1, DisableIdentity: true,
		ReadTimeout: 2 * longestBlock, PoolSize: connections,
	}
	if known {
		name, password, _ := strings.Cut(user, ":")
		var errName, errPassword error
		opts.Username, errName = url.PathUnescape(name)
		opts.Password, errPassword = url.PathUnescape(password)
		if errName != nil || errPassword != nil {
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
	for i, host := range opts.SentinelAddrs {
		if _, _, err := net.SplitHostPort(host); err != nil {
			opts.SentinelAddrs[i] = net.JoinHostPort(host, "26379")
		}
	}
	return opts, nil
}

// cutLast cuts a text at the last of a mark; without one, all is behind it.
func cutLast(text, mark string) (before, after string, found bool) {
	if at := strings.LastIndex(text, mark); at >= 0 {
		return text[:at], text[at+len(mark):], true
	}
	return "", text, false
}

// connections is how many a client may open: more than there are service
// instances in a process, each of which may be waiting in a read.
const connections = 1024

// Away reports whether an error says that Redis is not there now, and may be later: nothing
// answers at its address, or it still starts. That it refuses a password is another thing.
func Away(err error) bool {
	if !errors.Is(err, ErrUnreachable) {
		return Temporary(err)
	}
	_, replied := errors.AsType[redis.Error](err)
	return !replied || temporary(err)
}

// Redacted is an address without its password and what else may be secret in it.
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

// temporary are errors of a Redis that will do again what it cannot do now: it
// reads its data, follows another master, is full, or has lost its replicas.
func temporary(err error) bool {
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsOOMError(err) ||
		redis.IsMasterDownError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsNoReplicasError(err) || redis.IsMaxClientsError(err) || errors.Is(err, redis.ErrPoolTimeout)
}
