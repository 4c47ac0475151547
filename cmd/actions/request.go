package actions

import (
	"slices"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
)

// Requests computes the HTTP requests of an execution's calls, which histories do not store:
// it applies the history to the document, and composes each request as an executor does.
type Requests struct {
	Env *decide.Env

	// Err says why the history does not follow from the document, for example because its decisions
	// depend on missing secrets. No requests are computed after that.
	Err error

	state *decide.State
	begun []string // calls that begin in the transition that is being replayed
}

// Request is the request of a call, or why it cannot be computed.
type Request struct {
	*httpcall.Composed

	Problem string `json:"problem,omitempty"`
}

// Add applies the next event of the history. It returns the resulting requests by task run.
func (q *Requests) Add(e event.Event) map[string]Request {
	if q.Err != nil {
		return nil
	}
	if q.state == nil {
		q.state = decide.New()
	}
	if q.Err = q.state.Replay(q.Env, []event.Event{e}); q.Err != nil {
		return nil
	}
	if task := q.Env.Definition().Task(event.ParseRun(e.Task).Ref); e.Type == event.TaskRequested && task != nil && task.Call != nil && task.Call.HTTP != nil {
		q.begun = append(q.begun, e.Task)
	}
	if len(q.begun) == 0 || !q.state.Settled() {
		return nil
	}
	all, err := q.state.Requests(q.Env)
	if err != nil {
		q.Err = err
		return nil
	}
	out := make(map[string]Request, len(q.begun))
	for _, asked := range all {
		if slices.Contains(q.begun, asked.Task) {
			out[asked.Task] = q.compose(asked)
		}
	}
	q.begun = nil
	return out
}

// compose composes a request. It needs no credentials of an authentication policy, since they are
// not shown.
func (q *Requests) compose(asked event.Event) Request {
	run := event.ParseRun(asked.Task)
	task := q.Env.Definition().Task(run.Ref)
	var data event.Requested
	if err := decide.DecodeData(asked, &data); err != nil {
		return Request{Problem: err.Error()}
	}
	scope, err := q.Env.RequestScope(task, data, asked.Time)
	if err != nil {
		return Request{Problem: err.Error()}
	}
	open := *task.Call.HTTP
	open.Endpoint.Authentication = nil
	from := call.Origin{Tenant: asked.Tenant, Execution: asked.Execution, Nonce: data.Nonce, Run: run, Now: asked.Time}
	composed, err := (&httpcall.Caller{}).Compose(&open, call.NewRun(scope, from, nil))
	if err != nil {
		return Request{Problem: err.Error()}
	}
	if composed.Headers["User-Agent"] == "flunq" {
		delete(composed.Headers, "User-Agent") // of the executor, whose version is unknown
	}
	if task.Call.HTTP.Endpoint.Authentication != nil {
		composed.Headers["Authorization"] = "***"
	}
	return Request{Composed: composed}
}
