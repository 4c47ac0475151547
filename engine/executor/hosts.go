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
)

// hostOf is the host and port that a request to a URI dials.
func hostOf(u *url.URL) string {
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port(u))
}

// LimitHosts is a transport with at most limit requests to one host under way at
// once, 0 for as many as there are. A request is under way until the body of its
// answer is closed. One for which there is no room waits, until its context ends
// at the latest, and with it the executor that sends it: nothing for a simulation,
// in which nothing may wait.
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

// slots are the places of one host.
type slots struct {
	taken chan struct{}
	users int // requests that have or want one
}

// RoundTrip waits for room and performs one request.
func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	host := hostOf(req.URL)
	leave, err := l.enter(req.Context(), host)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // which a transport does, whatever happens
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

// errNoMemory is of a request that was not sent.
var errNoMemory = errors.New("waiting for room among the calls to")

// enter waits for room at a host.
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
		return nil, fmt.Errorf("%w %s, which has %d under way (limit: calls per host): %w", errNoMemory, host, l.limit, ctx.Err())
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

// unwant forgets a host to which there are no more requests.
func (l *limited) unwant(host string, s *slots) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(l.hosts, host)
	}
}

// leaving makes room when an answer has been read.
type leaving struct {
	io.ReadCloser
	leave func()
}

// Close ends the request.
func (l *leaving) Close() error {
	defer l.leave()
	return l.ReadCloser.Close() //nolint:wrapcheck // it is the body's error
}
