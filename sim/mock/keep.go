package mock

import (
	"fmt"
	"maps"
	"net/http"
)

// keep answers for a mock that keeps what it is sent, as a service does that stores
// things: GET reads what is there, PUT and POST put another in its place, PATCH
// replaces some of its members, DELETE removes it, so that nothing is found any
// more. Each URL has its own, without its query. What is done is done when the
// latency has passed; a response that is a failure does nothing.
func (t *Transport) keep(req *http.Request, body []byte, mock int, r Response) (*http.Response, error) {
	if err := t.pass(req, r); err != nil {
		return nil, err
	}
	if r.Error == "" && r.Status < http.StatusMultipleChoices {
		r = t.stored(req, body, mock, r)
	}
	return r.response(req)
}

// stored does what a request asks for, and is the response with what is there then.
func (t *Transport) stored(req *http.Request, body []byte, mock int, r Response) Response {
	bare := *req.URL
	bare.RawQuery, bare.ForceQuery, bare.Fragment, bare.RawFragment = "", false, "", ""
	key := fmt.Sprintf("%d %s", mock, bare.String())
	sent, err := jsonValue(body)
	if err != nil {
		sent = string(body)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = map[string]any{}
	}
	now, known := t.kept[key]
	if !known {
		now = t.mocks[mock].Keep
	}
	switch req.Method {
	case http.MethodPut, http.MethodPost:
		now = sent
	case http.MethodPatch:
		now = patched(now, sent)
	case http.MethodDelete:
		now = nil
	}
	t.kept[key] = now
	if now == nil && req.Method != http.MethodDelete {
		return Response{Status: http.StatusNotFound}
	}
	if !r.HasBody {
		r.Body, r.HasBody = now, now != nil
	}
	return r
}

// patched is a value with the members of another one in the place of its own.
func patched(value, members any) any {
	to, ok1 := value.(map[string]any)
	from, ok2 := members.(map[string]any)
	if !ok1 || !ok2 {
		return members
	}
	out := maps.Clone(to)
	maps.Copy(out, from)
	return out
}
