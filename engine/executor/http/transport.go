package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Network says what a transport connects to.
type Network bool

// The networks. AnyNetwork includes this machine and private networks.
const (
	PublicNetwork Network = false
	AnyNetwork    Network = true
)

// NewTransport returns the transport of an ordinary deployment. It enforces the limits on time and
// headers. It checks the resolved address when it connects, so DNS cannot bypass the check.
func NewTransport(to Network) http.RoundTripper {
	proxies := proxyAddresses()
	// A proxy is the operator's choice, and often in the private network.
	direct := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	dialer := *direct
	if to == PublicNetwork {
		dialer.Control = control
	}
	return &bounded{timeout: Timeout, to: to, next: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: refusedByProxy,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if proxies[address] {
				return direct.DialContext(ctx, network, address)
			}
			return dialer.DialContext(ctx, network, address)
		},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    16,
		MaxResponseHeaderBytes: maxHeaders,
	}}
}

// proxyAddresses returns the addresses of the proxies in the environment, as the dialer sees them.
func proxyAddresses() map[string]bool {
	addresses := map[string]bool{}
	for _, target := range []string{"http://proxied.invalid", "https://proxied.invalid"} {
		req, err := http.NewRequest(http.MethodGet, target, http.NoBody)
		if err != nil {
			continue
		}
		if proxy, err := http.ProxyFromEnvironment(req); err == nil && proxy != nil {
			at := proxy.Port()
			switch {
			case at == "" && proxy.Scheme == "socks5":
				at = "1080"
			case at == "":
				at = port(proxy)
			}
			addresses[net.JoinHostPort(proxy.Hostname(), at)] = true
		}
	}
	return addresses
}

// refusedByProxy returns an error if a proxy does not connect to the host of an https request.
func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the proxy of the services answered %s", statusLine(res.StatusCode))
	}
	return nil
}

// bounded ends a request that exceeds the timeout, body included.
type bounded struct {
	next    http.RoundTripper
	timeout time.Duration
	to      Network
}

// RoundTrip performs one request.
func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	// A proxy would connect for us, so literal addresses are checked here.
	if ip, err := netip.ParseAddr(req.URL.Hostname()); err == nil && b.to == PublicNetwork {
		if err := permit(ip); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(req.Context(), b.timeout)
	explain := func(err error) error {
		if ctx.Err() != nil && req.Context().Err() == nil {
			return fmt.Errorf("timed out: no complete response within %v (limit timeout)", b.timeout)
		}
		return err
	}
	res, err := b.next.RoundTrip(once(req.WithContext(ctx)))
	if err != nil {
		defer cancel()
		return nil, explain(err)
	}
	if res.StatusCode < http.StatusOK {
		// The body is the connection itself, which no deadline closes.
		_ = res.Body.Close()
		cancel()
		return nil, fmt.Errorf("status %s: a response in a protocol other than HTTP", statusLine(res.StatusCode))
	}
	res.Body = &observedBody{res.Body, explain, cancel}
	return res, nil
}

// once returns a request that net/http does not repeat by itself if the server hangs up. net/http
// takes an idempotency key as permission to repeat, but only the server knows whether it honours
// the key. A lower-case header name, as in HTTP/2, hides the key from net/http.
func once(req *http.Request) *http.Request {
	if safe(req.Method) {
		return req
	}
	header := req.Header.Clone()
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := header[name]; ok {
			delete(header, name)
			header[strings.ToLower(name)] = values
		}
	}
	req.Header = header
	return req
}

// observedBody is the body of a response that calls functions when it breaks off and when it is closed.
type observedBody struct {
	io.ReadCloser

	broken func(error) error // returns the error for the reader; nil: the same
	closed func()
}

// Read reads the body.
func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.broken != nil {
		err = b.broken(err)
	}
	return n, err
}

// Close ends the request.
func (b *observedBody) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}

// closedNetworkError says that an address may not be dialled.
type closedNetworkError struct {
	address netip.Addr
	network string
}

// Error names the flag that would allow the address.
func (e *closedNetworkError) Error() string {
	return fmt.Sprintf("%v is %s: calls may reach it only if the services run with --allow-private", e.address, e.network)
}

// control rejects connections to other networks than the public internet.
func control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %s: %w", address, err)
	}
	return permit(at.Addr())
}

// permit returns an error if an address is not on the public internet.
func permit(ip netip.Addr) error {
	ip = embedded(ip.WithZone("").Unmap())
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return &closedNetworkError{ip, "this machine itself"}
	case !public(ip):
		return &closedNetworkError{ip, "not on the public internet"}
	}
	return nil
}

// embedded returns the IPv4 address that an IPv6 address translates to, or ip itself.
func embedded(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:]))
	case netip.MustParsePrefix("2002::/16").Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

// public reports whether an address is on the public internet.
func public(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, special := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32", "fec0::/10",
	} {
		if netip.MustParsePrefix(special).Contains(ip) {
			return false
		}
	}
	return true
}
