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

	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/sim/mock"
)

// Call is a call that was carried out: a service answered that it has done what it was
// asked for, whether or not the workflow received the answer. A call that is repeated
// with the same idempotency key counts once.
type Call struct {
	Execution, Task string // the execution, and the run of the task that made it
	Method, URL     string
	Body            []byte
	Key             string // the idempotency key, "" if it has none
	Status          int
	At              time.Time // virtual
}

// Safe reports whether the call only reads.
func (c *Call) Safe() bool {
	return c.Method == http.MethodGet || c.Method == http.MethodHead || c.Method == http.MethodOptions || c.Method == http.MethodTrace
}

// Idempotent reports whether the call has the same effect when it is made again, by the
// meaning of its method.
func (c *Call) Idempotent() bool {
	return c.Safe() || c.Method == http.MethodPut || c.Method == http.MethodDelete
}

// carried are the calls of a run that were carried out.
type carried struct {
	calls []Call
	known map[string]bool
}

// carriedOut reports whether a service that answers with a status has done what it was
// asked for: not if it refused, failed, or sent the caller elsewhere.
func carriedOut(status int) bool {
	return status < http.StatusBadRequest && status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect
}

// carry notes a call that was answered with a status.
func (w *simulation) carry(from executor.Origin, req *http.Request, status int) {
	if !carriedOut(status) {
		return
	}
	c := Call{
		Execution: from.Execution, Task: from.Run.String(), Method: req.Method, URL: req.URL.Redacted(),
		Key: req.Header.Get(idempotencyKey), Status: status, At: w.clock.now,
	}
	id := rootOf(from.Execution) + "\n" + c.Key + "\n"
	if c.Key == "" {
		id += from.Execution + " " + c.Task + "\n"
	}
	id += c.Method + " " + c.URL
	if w.carried.known[id] {
		return
	}
	if w.carried.known == nil {
		w.carried.known = map[string]bool{}
	}
	w.carried.known[id] = true
	c.Body = sentBy(req)
	w.carried.calls = append(w.carried.calls, c)
}

// sentBy is the body of a request that may have been read already.
func sentBy(req *http.Request) []byte {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(body) // it is in memory
	_ = body.Close()            // likewise
	return text
}

// rootOf is the id of the execution that was started from outside, and has begun this
// one or is it.
func rootOf(id string) string {
	root, _, _ := strings.Cut(id, ".")
	return root
}

// carrier notes the calls of a run in which nothing goes wrong.
type carrier struct {
	w    *simulation
	next http.RoundTripper
}

// RoundTrip is http.RoundTripper's.
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err == nil {
		c.w.carry(c.w.originOf(req), req, resp.StatusCode)
	}
	return resp, err //nolint:wrapcheck // it is the transport's error
}

// kept is what the mocks of an execution that was started from outside keep in the end,
// or for "" what those keep that all executions share; only where it has changed.
func (w *simulation) kept(root string) map[string]any {
	if w.mocked == nil || !w.cfg.Mocks.Keeps() {
		return nil
	}
	var all []mock.Kept
	switch {
	case root == "":
		all = w.mocked.of("").Kept(true)
	case w.mocked.each[w.mocked.owner(root)] != nil:
		all = w.mocked.each[w.mocked.owner(root)].Kept(false)
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

// done is what an execution has done to the world.
func (w *simulation) done(id string) (calls []Call, kept map[string]any) {
	for _, c := range w.carried.calls {
		if c.Execution == id {
			calls = append(calls, c)
		}
	}
	if slices.Contains(w.ids, id) {
		kept = w.kept(id)
	}
	if len(w.ids) == 1 && id == w.ids[0] { // it shares with nobody
		kept = joined(kept, w.kept(""))
	}
	return calls, kept
}

func joined(a, b map[string]any) map[string]any {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}

// effects is a hash of what a run has done to the world: the calls that were carried
// out and change something, and what mocks keep. It is "" if there is nothing.
func (w *simulation) effects() string {
	var lines []string
	for i := range w.carried.calls {
		if c := &w.carried.calls[i]; !c.Safe() {
			line := c.Execution + " " + c.Method + " " + c.URL + " " + string(c.Body)
			if !c.Idempotent() || !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	for _, root := range append([]string{""}, w.ids...) {
		if kept := w.kept(root); kept != nil {
			lines = append(lines, root+" keeps "+string(expr.Encode(kept)))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	text := strings.Join(lines, "\n")
	if id := w.cfg.ID; id != "" { // it follows from the seed, if nobody has given one
		text = string(bytes.ReplaceAll([]byte(text), []byte(id), []byte("execution")))
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
