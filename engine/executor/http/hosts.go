package http

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// hostOf returns the host and port to which a request to a URI connects.
func hostOf(u *url.URL) string {
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port(u))
}

// LimitHosts returns a transport that allows at most limit concurrent requests per host, 0 for no
// limit. A request lasts until the body of its response is closed. A request over the limit waits,
// and its executor with it, at most until its context ends. Simulations must not use it, since
// nothing may block there.
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
			_ = req.Body.Close() // a transport must always close it
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
		return res, err
	}
	res.Body = &observedBody{ReadCloser: res.Body, closed: sync.OnceFunc(leave)}
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
		return nil, fmt.Errorf("%w %s, which has %d under way (limit EXECUTOR_HOST_CONCURRENCY): %w", errNoSlot, host, l.limit, ctx.Err())
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
