package wire

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// NewFailover returns a client of the master that sentinels monitor. go-redis waits for the answer of each
// sentinel before it connects, even if another has answered, so this client limits how long they may take:
// a sentinel that hangs, or whose host is down, delays a connection by about a second.
func NewFailover(opts *redis.FailoverOptions) *redis.Client {
	d := &failoverDialer{given: slices.Clone(opts.SentinelAddrs), config: opts.TLSConfig, known: map[string]bool{}}
	opts.Dialer = d.dial
	return redis.NewFailoverClient(opts)
}

// sentinelPatience is how long a sentinel may take to connect, and to answer.
const sentinelPatience = time.Second

// failoverDialer connects to sentinels and to masters.
type failoverDialer struct {
	given  []string    // the sentinels of the address, with ports
	config *tls.Config // nil: without TLS

	lock  sync.Mutex
	known map[string]bool // the addresses of the given sentinels, as sentinels name each other
}

func (d *failoverDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := &net.Dialer{}
	sentinel := d.isSentinel(ctx, addr)
	if sentinel {
		dialer.Timeout = sentinelPatience
	}
	var conn net.Conn
	var err error
	if d.config == nil {
		conn, err = dialer.DialContext(ctx, network, addr)
	} else {
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: d.config}).DialContext(ctx, network, addr)
	}
	if err != nil || !sentinel {
		return conn, err
	}
	return impatient{conn}, nil
}

// isSentinel reports whether an address is that of a given sentinel, by its name or IP address.
func (d *failoverDialer) isSentinel(ctx context.Context, addr string) bool {
	d.lock.Lock()
	known := d.known[addr]
	d.lock.Unlock()
	if known || !slices.Contains(d.given, addr) {
		return known
	}
	host, port, _ := net.SplitHostPort(addr)
	found, _ := net.DefaultResolver.LookupHost(ctx, host) // dialling reports the error
	d.lock.Lock()
	defer d.lock.Unlock()
	for _, ip := range found {
		d.known[net.JoinHostPort(ip, port)] = true
	}
	return true
}

// impatient is a connection to a sentinel. A read without a deadline, that of the subscription to failovers,
// has no limit.
type impatient struct{ net.Conn }

// SetReadDeadline sets a deadline that is not later than t.
func (c impatient) SetReadDeadline(t time.Time) error {
	if soon := time.Now().Add(sentinelPatience); soon.Before(t) {
		t = soon
	}
	return c.Conn.SetReadDeadline(t)
}
