package search

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/sim"
)

// normalizer prepares outcomes and calls for comparisons between runs: it replaces values that
// depend on the start time of a run by *.
type normalizer struct {
	values map[string]map[string]bool // JSON pointers into outcomes, by execution
	calls  map[string]callPlaces      // by execution, task and method
}

// keys identifies how an execution ended: executions that ended alike have equal keys.
type keys struct {
	whole  string // including external effects
	result string // status, output and error only
}

// callPlaces holds the places in the calls of a task that depend on the start time.
type callPlaces struct {
	url  map[int]bool    // indexes of parts, see urlParts
	body map[string]bool // JSON pointers
}

// newNormalizer compares the ends of a run with those of the same run at a later start time.
func newNormalizer(ends, later []sim.End) *normalizer {
	n := &normalizer{values: map[string]map[string]bool{}, calls: map[string]callPlaces{}}
	for i, end := range ends {
		if i >= len(later) || later[i].ID != end.ID || later[i].Status != end.Status {
			continue
		}
		places := map[string]bool{}
		for _, d := range unequal("", outcomeValue(end), outcomeValue(later[i])) {
			places[d.Path] = true
		}
		n.values[canonicalID(end.ID)] = places
		n.learn(end.Calls, later[i].Calls)
	}
	return n
}

// learn compares the calls of an execution with those of the same one at a later start time.
func (n *normalizer) learn(calls, later []sim.Call) {
	made := map[string][]sim.Call{}
	for _, c := range later {
		made[callKey(c)] = append(made[callKey(c)], c)
	}
	for _, c := range calls {
		key := callKey(c)
		if len(made[key]) == 0 {
			continue
		}
		other := made[key][0]
		made[key] = made[key][1:]
		known, ok := n.calls[key]
		if !ok {
			known = callPlaces{map[int]bool{}, map[string]bool{}}
			n.calls[key] = known
		}
		parts, others := urlParts(c.URL), urlParts(other.URL)
		for i, part := range parts {
			if len(parts) != len(others) || part != others[i] {
				known.url[i] = true
			}
		}
		for _, d := range unequal("", bodyValue(c.Execution, c.Body), bodyValue(c.Execution, other.Body)) {
			known.body[d.Path] = true
		}
	}
}

func callKey(c sim.Call) string {
	return canonicalID(c.Execution) + " " + event.ParseRun(c.Task).Ref + " " + c.Method
}

// urlParts splits a URL into parts that can differ separately and the separators between them.
func urlParts(url string) []string {
	return urlPart.FindAllString(url, -1)
}

var urlPart = regexp.MustCompile(`[/?&=]|[^/?&=]+`)

// bodyValue decodes a body; if it is not JSON it is a string.
func bodyValue(id string, body []byte) any {
	body = withCanonicalIDs(id, body)
	if len(body) == 0 {
		return nil
	}
	var v any
	if json.Unmarshal(body, &v) != nil {
		return string(body)
	}
	return v
}

// Effect is a call that changes something. Values that depend on the start time are
// replaced by *.
type Effect struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	Body   string `json:"body,omitempty"`
}

// effect returns the effect of a call.
func (n *normalizer) effect(c sim.Call) Effect {
	e := Effect{Method: c.Method, URL: string(withCanonicalIDs(c.Execution, []byte(c.URL)))}
	places := n.calls[callKey(c)]
	if len(places.url) > 0 {
		parts := urlParts(e.URL)
		for i := range parts {
			if places.url[i] {
				parts[i] = "*"
			}
		}
		e.URL = strings.Join(parts, "")
	}
	if len(c.Body) > 0 {
		e.Body = string(canonical.Encode(normalized("", bodyValue(c.Execution, c.Body), places.body)))
	}
	return e
}

// effects counts the effects of calls. A repeated idempotent call counts once.
func (n *normalizer) effects(calls []sim.Call) map[Effect]int {
	out := map[Effect]int{}
	for i := range calls {
		c := &calls[i]
		if c.Safe() {
			continue
		}
		e := n.effect(*c)
		if out[e]++; c.Idempotent() {
			out[e] = 1
		}
	}
	return out
}

// effectsText returns a string that is equal for equal effects.
func effectsText(effects map[Effect]int) string {
	lines := make([]string, 0, len(effects))
	for e, n := range effects {
		lines = append(lines, e.Method+" "+e.URL+" "+e.Body+" "+strconv.Itoa(n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// key is equal for ends that differ only in ignored places.
func (n *normalizer) key(end sim.End) string { return n.keysOf(end).whole }

func (n *normalizer) keysOf(end sim.End) keys {
	places := n.values[canonicalID(end.ID)]
	value := normalized("", outcomeValue(end), places)
	object, _ := value.(map[string]any)
	kept := object["kept"]
	delete(object, "kept")
	sum := func(v any, more string) string {
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(end.Outcome)
		}
		all := sha256.Sum256(append(append([]byte(end.Status), text...), more...))
		return string(all[:])
	}
	result := sum(object, "")
	return keys{whole: sum(kept, result+effectsText(n.effects(end.Calls))), result: result}
}

// outcomeValue returns the outcome of an execution, including the state of its mocks, as
// a JSON value. Ids of root executions are replaced, see withCanonicalIDs.
func outcomeValue(end sim.End) any {
	out := map[string]any{}
	var output, problem, kept any
	if json.Unmarshal(withCanonicalIDs(end.ID, end.Output), &output) == nil {
		out["output"] = output
	}
	if end.Error != nil && json.Unmarshal(withCanonicalIDs(end.ID, event.Encode(end.Error)), &problem) == nil {
		out["error"] = problem
	}
	if len(end.Kept) > 0 && json.Unmarshal(withCanonicalIDs(end.ID, event.Encode(end.Kept)), &kept) == nil {
		out["kept"] = kept
	}
	return out
}

// withCanonicalIDs replaces the ids of all root executions in text with that of the first one.
func withCanonicalIDs(id string, text []byte) []byte {
	first := canonicalID(sim.Root(id))
	if !bytes.Contains(text, []byte(first+"-")) {
		return text
	}
	return regexp.MustCompile(`\b`+regexp.QuoteMeta(first)+`-\d+\b`).ReplaceAllLiteral(text, []byte(first))
}

func normalized(path string, v any, places map[string]bool) any {
	if places[path] {
		return "*"
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = normalized(path+"/"+name, member, places)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = normalized(path+"/"+strconv.Itoa(i), item, places)
		}
		return out
	default:
		return v
	}
}

// Unequal is a place, as a JSON pointer, where two values differ.
type Unequal struct {
	Path string
	A, B any // nil also if there is no value
}

// unequal returns the places where two values differ, as deep as possible.
func unequal(path string, a, b any) []Unequal {
	x, ok1 := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if ok1 && ok2 {
		all := maps.Clone(x)
		maps.Copy(all, y)
		var out []Unequal
		for _, name := range slices.Sorted(maps.Keys(all)) {
			out = append(out, unequal(path+"/"+name, x[name], y[name])...)
		}
		return out
	}
	v, ok1 := a.([]any)
	w, ok2 := b.([]any)
	if ok1 && ok2 && len(v) == len(w) {
		var out []Unequal
		for i := range v {
			out = append(out, unequal(path+"/"+strconv.Itoa(i), v[i], w[i])...)
		}
		return out
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []Unequal{{path, a, b}}
}
