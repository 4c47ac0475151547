package http

import (
	"net/http"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
)

// originHeader carries the Origin of a request to the transport so that a simulated one
// can tell tasks apart. Outward removes it.
const originHeader = "Flunq-Origin"

// OriginOf returns the origin of a request, as a transport sees it, without its time.
func OriginOf(req *http.Request) call.Origin {
	execution, run, _ := strings.Cut(req.Header.Get(originHeader), " ")
	return call.Origin{Execution: execution, Run: event.ParseRun(run)}
}

// Outward wraps a transport for requests that leave the engine, and removes their origin.
func Outward(next http.RoundTripper) http.RoundTripper { return outward{next} }

type outward struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o outward) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del(originHeader)
	return o.next.RoundTrip(req)
}
