package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/event"
)

// hostOf returns the host and port that a request to a URI dials.
func hostOf(u *url.URL) string {
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port(u))
}

// LimitHosts returns a transport that allows at most limit concurrent requests per host,
// 0 for no limit. A request lasts until the body of its answer is closed. A request over
// the limit waits, until its context ends at the latest, and its executor with it.
// Simulations must not use it, since nothing may block there.
func LimitHosts(next http.RoundTripper, limit int) http.RoundTripper {
	if limit <= 0 {
		return next
	}
	return &limited{next: next, limit: limit, hosts: map[string]*slots{}}
}

type limited struct {
	next  http.RoundTripper
	limit int

	mu    sync.Mutex
	hosts map[string]*slots // those with requests
}

// slots are the concurrent requests that one host allows.
type slots struct {
	taken chan struct{}
	users int // requests that have or want a slot
}

// RoundTrip waits for a slot and performs one request.
func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	host := hostOf(req.URL)
	leave, err := l.enter(req.Context(), host)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a transport must close it in any case
		}
		return nil, err
	}
	handedOver := false
	defer func() {
		if !handedOver {
			leave()
		}
	}()
	res, err := l.next.RoundTrip(req)
	if err != nil || res.Body == nil {
		return res, err //nolint:wrapcheck // it is the transport's error
	}
	res.Body = &leaving{ReadCloser: res.Body, leave: sync.OnceFunc(leave)}
	handedOver = true
	return res, nil
}

// errNoSlot reports a request that was not sent.
var errNoSlot = errors.New("waiting for a free slot among the calls to")

// enter waits for a slot of a host.
func (l *limited) enter(ctx context.Context, host string) (leave func(), err error) {
	s := l.want(host)
	select {
	case s.taken <- struct{}{}:
		return func() {
			<-s.taken
			l.unwant(host, s)
		}, nil
	case <-ctx.Done():
		l.unwant(host, s)
		return nil, fmt.Errorf("%w %s, which has %d under way (limit: calls per host): %w", errNoSlot, host, l.limit, ctx.Err())
	}
}

func (l *limited) want(host string) *slots {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		s = &slots{taken: make(chan struct{}, l.limit)}
		l.hosts[host] = s
	}
	s.users++
	return s
}

// unwant forgets a host without requests.
func (l *limited) unwant(host string, s *slots) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(l.hosts, host)
	}
}

// leaving frees the slot when the answer has been read.
type leaving struct {
	io.ReadCloser
	leave func()
}

// Close ends the request.
func (l *leaving) Close() error {
	defer l.leave()
	return l.ReadCloser.Close() //nolint:wrapcheck // it is the body's error
}

// Origin is the execution and task run that makes a call, and the time.
type Origin struct {
	Tenant    string
	Execution string
	Nonce     string // of the execution, for the idempotency key
	Run       event.Run
	Now       time.Time // the engine's time, for the breakers; zero: they ignore the call
}

// originHeader carries the Origin of a request to the transport, so that a simulated one
// can tell tasks apart. Outward removes it.
const originHeader = "Flunq-Origin"

// set records the origin in a request.
func (o Origin) set(req *http.Request) {
	req.Header.Set(originHeader, o.Execution+" "+o.Run.String())
}

// OriginOf returns where a request comes from, as a transport sees it, without its time.
func OriginOf(req *http.Request) Origin {
	execution, run, _ := strings.Cut(req.Header.Get(originHeader), " ")
	return Origin{Execution: execution, Run: event.ParseRun(run)}
}

// Outward wraps a transport for requests that leave the engine and removes their origin.
func Outward(next http.RoundTripper) http.RoundTripper { return outward{next} }

type outward struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o outward) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del(originHeader)
	return o.next.RoundTrip(req) //nolint:wrapcheck // it is the transport's error
}
