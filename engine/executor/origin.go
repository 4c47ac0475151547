package executor

import (
	"net/http"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
)

// Origin is which run of which execution makes a call, and when.
type Origin struct {
	Tenant    string
	Execution string
	Nonce     string // of the execution, for the idempotency key
	Run       event.Run
	Now       time.Time // the engine's, for the breakers; zero: they let it pass
}

// originHeader carries the Origin of a request to the transport, so that one in
// the place of the world can tell the tasks apart. Outward takes it off.
const originHeader = "Flunq-Origin"

// set notes the origin on a request.
func (o Origin) set(req *http.Request) {
	req.Header.Set(originHeader, o.Execution+" "+o.Run.String())
}

// OriginOf is where a request comes from, as a transport sees it: without its time.
func OriginOf(req *http.Request) Origin {
	execution, run, _ := strings.Cut(req.Header.Get(originHeader), " ")
	return Origin{Execution: execution, Run: event.ParseRun(run)}
}

// Outward is a transport for requests that leave the engine: without their origin.
func Outward(next http.RoundTripper) http.RoundTripper { return outward{next} }

type outward struct{ next http.RoundTripper }

// RoundTrip is http.RoundTripper's.
func (o outward) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del(originHeader)
	return o.next.RoundTrip(req) //nolint:wrapcheck // it is the transport's error
}
