package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/sim/mock"
)

// Call is a call that was carried out: the called service answered that it did what it
// was asked, whether or not the workflow received the response. A repeated call with the
// same idempotency key counts once.
type Call struct {
	CallID

	Body   []byte
	Key    string // the idempotency key, "" if there is none
	Status int
	At     time.Time // virtual
}

// Safe reports whether the call only reads.
func (c *Call) Safe() bool {
	return c.Method == http.MethodGet || c.Method == http.MethodHead || c.Method == http.MethodOptions || c.Method == http.MethodTrace
}

// Idempotent reports whether repeating the call has no additional effect, by the semantics
// of its HTTP method.
func (c *Call) Idempotent() bool {
	return c.Safe() || c.Method == http.MethodPut || c.Method == http.MethodDelete
}

// carriedOutCalls holds the calls of a run that were carried out.
type carriedOutCalls struct {
	calls []Call
	known map[string]bool
}

// carriedOut reports whether a response status means that the service did what it was asked,
// and did not refuse, fail or redirect the request.
func carriedOut(status int) bool {
	return status < http.StatusBadRequest && status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect
}

// recordCarriedOut records a call that was answered with status.
func (env *environment) recordCarriedOut(from call.Origin, req *http.Request, status int) {
	if !carriedOut(status) {
		return
	}
	c := Call{CallID: callID(from, req), Key: req.Header.Get(idempotencyKey), Status: status, At: env.clock.now}
	id := Root(from.Execution) + "\n" + c.Key + "\n"
	if c.Key == "" {
		id += from.Execution + " " + c.Task + "\n"
	}
	id += c.Method + " " + c.URL
	if env.carried.known[id] {
		return
	}
	env.carried.known[id] = true
	c.Body = sentBy(req)
	env.carried.calls = append(env.carried.calls, c)
}

// sentBy returns the body of a request, even if it has been read already.
func sentBy(req *http.Request) []byte {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(body) // the body is in memory
	_ = body.Close()            // closing memory cannot fail
	return text
}

// effectRecorder records the calls of a run without faults.
type effectRecorder struct {
	env  *environment
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *effectRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err == nil {
		r.env.recordCarriedOut(r.env.originOf(req), req, resp.StatusCode)
	}
	return resp, err
}

// kept returns the state that mocks keep for a root execution at the end, or for "" the
// state that all executions share. It includes only values that changed.
func (env *environment) kept(root string) map[string]any {
	if env.mocked == nil || !env.cfg.Mocks.Keeps() {
		return nil
	}
	var all []mock.Kept
	switch {
	case root == "":
		all = env.mocked.of("").Kept(true)
	case env.mocked.each[env.mocked.owner(root)] != nil:
		all = env.mocked.each[env.mocked.owner(root)].Kept(false)
	}
	var out map[string]any
	for _, k := range all {
		if k.Changed() {
			if out == nil {
				out = map[string]any{}
			}
			out[k.URL] = k.Value
		}
	}
	return out
}

// effectsOf returns the external effects of an execution.
func (env *environment) effectsOf(id string) (calls []Call, kept map[string]any) {
	for _, c := range env.carried.calls {
		if c.Execution == id {
			calls = append(calls, c)
		}
	}
	if slices.Contains(env.ids, id) {
		kept = env.kept(id)
	}
	if len(env.ids) == 1 && id == env.ids[0] { // a single execution owns the shared state
		shared := env.kept("")
		if kept == nil {
			return calls, shared
		}
		maps.Copy(kept, shared)
	}
	return calls, kept
}

// effectsHash returns a hash of what a run changed outside the engine: the unsafe calls that
// were carried out, and the state kept by mocks. It is "" if nothing changed.
func (env *environment) effectsHash() string {
	var lines []string
	for i := range env.carried.calls {
		if c := &env.carried.calls[i]; !c.Safe() {
			line := c.Execution + " " + c.Method + " " + c.URL + " " + string(c.Body)
			if !c.Idempotent() || !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	for _, root := range append([]string{""}, env.ids...) {
		if kept := env.kept(root); kept != nil {
			lines = append(lines, root+" keeps "+string(canonical.Encode(kept)))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	text := strings.Join(lines, "\n")
	if id := env.cfg.ID; id != "" { // the id depends on the seed if the caller has set none
		text = string(bytes.ReplaceAll([]byte(text), []byte(id), []byte("execution")))
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
