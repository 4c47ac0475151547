package mock

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/yaml"
)

// State holds the values that mocks keep, by mock and URL.
type State struct {
	mu     sync.Mutex
	values map[place]any
}

// place identifies a value.
type place struct {
	mock int
	url  string
}

// Kept is a value that a mock keeps, and its initial value.
type Kept struct {
	URL          string
	Value, First any
}

// Kept returns the values that mocks keep now, sorted by URL: those of one execution, or
// the shared ones. A mock whose URL has no * has a value even before its first request.
func (t *Transport) Kept(shared bool) []Kept {
	state := t.state(shared)
	state.mu.Lock()
	defer state.mu.Unlock()
	var out []Kept
	for i, mock := range t.mocks {
		_, asked := state.values[place{i, mock.Match.URL}]
		if mock.Keeps && mock.Shared == shared && !asked && mock.Match.URL != "" && !strings.Contains(mock.Match.URL, "*") {
			out = append(out, Kept{mock.Match.URL, mock.Keep, mock.Keep})
		}
	}
	for at, value := range state.values {
		out = append(out, Kept{at.url, value, t.mocks[at.mock].Keep})
	}
	slices.SortFunc(out, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(jsonText(a.Value), jsonText(b.Value)))
	})
	return out
}

// Changed reports whether the value differs from the initial one.
func (k Kept) Changed() bool {
	return !reflect.DeepEqual(k.Value, k.First) && jsonText(k.Value) != jsonText(k.First)
}

// state returns the State that holds the values of a scope.
func (t *Transport) state(shared bool) *State {
	if shared && t.Shared != nil {
		return t.Shared
	}
	return &t.own
}

// The scopes of the values that a mock keeps.
const (
	scopeExecution = "execution" // each root execution has its own values
	scopeShared    = "shared"    // the executions of a run share the values
)

// readKeep reads keep: either the initial state, or its scope and the state. A state that
// happens to have a member "scope" is recognized by the value of that member.
func readKeep(r *yaml.Reader, n *yaml3.Node) (state any, shared bool) {
	scope, single := scopeIn(n)
	known := scope == scopeExecution || scope == scopeShared
	meant := yaml.Fields{scopeExecution: nil, scopeShared: nil}.Nearest(scope)
	if !known && (!single || meant == "") {
		return r.Data(n), false
	}
	r.Object(n, "keep", yaml.Fields{
		"scope": func(n *yaml3.Node) {
			if !known {
				r.Errorf(n, "scope is %s, want execution or shared; did you mean %s?", yaml.Spelled(n), meant)
			}
		},
		"state": func(n *yaml3.Node) { state = r.Data(n) },
	}, func(key, _ *yaml3.Node) {
		r.Errorf(key, "keep has a scope and %q: want {scope: %s, state: {…}}, with the whole state in state", key.Value, scope)
	})
	return state, scope == scopeShared
}

// scopeIn returns the scope that an object names, and whether it has no members other
// than scope and state.
func scopeIn(n *yaml3.Node) (scope string, single bool) {
	if n.Kind == yaml3.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml3.MappingNode {
		return "", false
	}
	single = true
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i].Value; key {
		case "scope":
			scope = n.Content[i+1].Value
		case "state":
		default:
			single = false
		}
	}
	return scope, single
}

// keep answers for a mock that keeps values, like a service that stores resources: GET reads
// the value, PUT and POST replace it, PATCH replaces some of its members, and DELETE removes
// it. Each URL without its query has its own value, for each root execution or shared by all.
// A change takes effect when the latency has passed; an error response changes nothing.
func (t *Transport) keep(req *http.Request, body []byte, mock int, r Response) Response {
	key := place{mock, withoutQuery(req.URL)}
	sent, err := jsonValue(body)
	if err != nil {
		sent = string(body)
	}
	state := t.state(t.mocks[mock].Shared)
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.values == nil {
		state.values = map[place]any{}
	}
	now, known := state.values[key]
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
	state.values[key] = now
	switch {
	case now == nil && req.Method != http.MethodDelete:
		r = Response{Status: http.StatusNotFound}
	case !r.HasBody:
		r.Body, r.HasBody = now, now != nil
	}
	return r
}

// once returns the response that a repeated request got the first time. For a new request it
// calls now.
func (t *Transport) once(id string, now func() Response) Response {
	if id == "" {
		return now()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.repeated[id]; ok {
		return known
	}
	if t.repeated == nil {
		t.repeated = map[string]Response{}
	}
	t.repeated[id] = now()
	return t.repeated[id]
}

// patched returns a value with some of its members replaced.
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
