package report

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/recording"
)

// call is a request of a task and its response.
type call struct {
	from, to    history.Moment
	method, url string
	status      int // 0: no response
	headers     []string
	request     *datum
	response    *datum
	problem     string
	open        bool
	took        time.Duration
}

// takeCall adds an exchange.
func (r *Recording) takeCall(line []byte) error {
	var l recording.CallLine
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	took := time.Duration(l.TookMS * float64(time.Millisecond))
	task := event.Run{Ref: l.Task, Iteration: l.Iteration, Attempt: l.Attempt}
	x := r.byKey[key(l.Execution, task.String())]
	if x == nil {
		return nil // the history does not contain the task
	}
	c := &call{
		from: history.Moment{At: l.At, Version: int64(r.seq)}, to: history.Moment{At: l.At.Add(took), Version: int64(r.seq)}, method: l.Request.Method, url: bare(l.Request.URL),
		problem: l.Error, open: l.Open, took: took, request: r.body(l.Request.Body, l.Request.Base64),
	}
	if took == 0 {
		c.from.Version = x.Began.Version
	}
	if l.Response != nil {
		c.status, c.response = l.Response.Status, r.body(l.Response.Text, l.Response.Base64)
		for name, value := range l.Response.Headers {
			c.headers = append(c.headers, name+": "+value)
		}
		slices.Sort(c.headers)
	}
	x.calls = append(x.calls, c)
	return nil
}

// bare returns an address without its password.
func bare(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	return u.Redacted()
}

// body returns a body as data: JSON unchanged, other text as a string.
func (r *Recording) body(text string, binary []byte) *datum {
	switch {
	case len(binary) > 0:
		return r.datum(encode(fmt.Sprintf("%d binary bytes", len(binary))))
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return r.datum([]byte(text))
	default:
		return r.datum(encode(text))
	}
}

// end returns when a call ended for its task. The response to a cancelled call may arrive
// later.
func (c *call) end(x *run) history.Moment {
	if !x.open() && c.to.At.After(x.Ended.At) {
		return x.Ended
	}
	return c.to
}

// label returns the status of a call.
func (c *call) label() string {
	switch {
	case c.status > 0:
		return strconv.Itoa(c.status)
	case c.open:
		return "no response yet"
	default:
		return "no response"
	}
}

// failed reports whether there is no response or one with an error status.
func (c *call) failed() bool { return c.status == 0 || c.status >= 400 }
