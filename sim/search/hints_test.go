package search_test

import (
	"strings"
	"testing"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
)

// hintsOf returns the hints of a kind by the names of their tasks.
func hintsOf(r *search.Report, kind string) map[string]string {
	out := map[string]string{}
	for _, h := range r.Hints {
		name := ""
		if h.Task != nil {
			name = h.Task.Name
		}
		if h.Kind == kind {
			out[name] = h.Text
		}
	}
	return out
}

// A catch that can never catch anything is reported.
func TestSearchCatches(t *testing.T) {
	t.Parallel()
	base := "https://serverlessworkflow.io/spec/1.0.0/errors/"
	r := look(t, `
do:
  - quiet: {try: [{rest: {wait: PT1S}}], catch: {as: e}}
  - local: {try: [{one: {set: {n: 1}}}], catch: {errors: {with: {type: `+base+`communication}}}}
  - typo: {try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}], catch: {errors: {with: {type: `+base+`comunication}}}}
  - fine: {try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}], catch: {errors: {with: {type: `+base+`communication, status: 200}}}}
  - late: {try: [{one: {set: {n: 1}}}], catch: {errors: {with: {type: `+base+`timeout}}}}
  - works: {try: [{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}], catch: {errors: {with: {type: `+base+`communication, status: 503}}}}
  - slow: {try: [{rest: {wait: P1D}}], catch: {errors: {with: {type: `+base+`timeout}}, retry: {limit: {attempt: {count: 1, duration: PT1M}}}, do: [{two: {set: {n: 2}}}]}}
  - raised: {try: [{bad: {raise: {error: {type: https://me.example/bad, status: 400}}}}], catch: {errors: {with: {type: https://me.example/bad}}}}
`, `http: [{respond: {body: {}}}]`, search.Search{})
	got := hintsOf(r, "catch")
	for name, want := range map[string]string{
		"quiet": "nothing inside can fail", "local": "nothing inside makes a call", "typo": "nothing inside raises",
		"fine": "status 200 has not failed", "late": "no task inside has a timeout",
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("hints %v", got)
	}
}

// A catch is not blamed for a call that it did not undo because no mock answers.
func TestSearchUndoUnmocked(t *testing.T) {
	t.Parallel()
	saga := `
do:
  - all:
      try:
        - reserve: {call: http, with: {method: post, endpoint: "https://a.example/stock"}}
        - charge: {call: http, with: {method: post, endpoint: "https://a.example/pay"}}
      catch: {do: [{release: {call: http, with: {method: delete, endpoint: "https://a.example/stock"}}}]}
`
	lost := search.Search{Kinds: []sim.FaultKind{sim.CallLost}, Rate: 2}
	r := look(t, saga, `http: [{match: {method: POST}, respond: {body: {}}}]`, lost)
	if len(r.Unmocked) != 1 || len(hintsOf(r, "undo")) > 0 {
		t.Errorf("unmocked %v, hints %v", r.Unmocked, r.Hints)
	}
	saga = strings.Replace(saga, `call: http, with: {method: delete, endpoint: "https://a.example/stock"}`, `set: {sorry: true}`, 1)
	r = look(t, saga, `http: [{respond: {body: {}}}]`, lost)
	if got := hintsOf(r, "undo"); !strings.Contains(got["all"], "nothing in its catch undoes it") {
		t.Errorf("hints %v", r.Hints)
	}
}

// A timeout longer than all iterations of a loop is reported, including that of the
// workflow.
func TestSearchLoopTimeouts(t *testing.T) {
	t.Parallel()
	r := look(t, `
timeout: {after: P1D}
do:
  - outer:
      timeout: {after: PT1H}
      do:
        - loop: {for: {in: "[range(5)]"}, do: [{nap: {wait: PT1M}}]}
`, "", search.Search{})
	got := hintsOf(r, "timeout")
	if !strings.Contains(got["outer"], "at most PT5M, with at most 5 iterations of loop as observed") || !strings.Contains(got[""], "the timeout of the workflow, PT24H") {
		t.Errorf("hints %v", got)
	}
}

// A call that is retried although its first attempt may have been carried out is
// reported, even without faults.
func TestSearchRetries(t *testing.T) {
	t.Parallel()
	r := look(t, `
do:
  - pay:
      try: [{charge: {call: http, with: {method: post, endpoint: "https://bank.example/"}, timeout: {after: PT2S}}}]
      catch: {retry: {delay: PT1S, limit: {attempt: {count: 3}}}}
`, `http: [{respond: [{latency: PT3S, body: {}}, {latency: PT1S, body: {}}]}]`, search.Search{})
	if got := hintsOf(r, "retry")["charge"]; !strings.Contains(got, "up to 2 times for one task") || !strings.Contains(got, "without any fault") {
		t.Errorf("hint %q", got)
	}
}

// The attempts of nested retries multiply only if the inner try can fail with what it caught.
func TestSearchNestedRetries(t *testing.T) {
	t.Parallel()
	const retry = "retry: {delay: PT1S, limit: {attempt: {count: 4}}}"
	const call = `[{ask: {call: http, with: {method: get, endpoint: "https://a.example/"}}}]`
	r := look(t, `
do:
  - plain: {try: [{a: {try: `+call+`, catch: {`+retry+`}}}], catch: {`+retry+`}}
  - handled: {try: [{b: {try: `+call+`, catch: {`+retry+`, do: [{no: {set: {n: 1}}}]}}}], catch: {`+retry+`}}
  - left: {try: [{c: {try: `+call+`, catch: {`+retry+`, then: exit}}}], catch: {`+retry+`}}
  - raised: {try: [{d: {try: `+call+`, catch: {`+retry+`, do: [{bad: {raise: {error: {type: https://me.example/bad, status: 400}}}}]}}}], catch: {`+retry+`}}
`, `http: [{respond: {body: {}}}]`, search.Search{})
	got := hintsOf(r, "advice")
	for name, want := range map[string]bool{"plain": true, "handled": false, "left": false, "raised": true} {
		if strings.Contains(got[name], "5 × 5 = 25 times") != want {
			t.Errorf("%s: %q, want the product: %t", name, got[name], want)
		}
	}
}

// An input can be delivered later, so it is not lost if nobody listens when it is emitted.
func TestSearchInputs(t *testing.T) {
	t.Parallel()
	r := look(t, `
do:
  - later: {emit: {event: {with: {type: a, data: 1, flunqafter: PT10S}}}}
  - computed: {emit: {event: {with: {type: b, data: "${ . }", flunqafter: PT10S}}}}
  - hear: {listen: {to: {one: {with: {type: a}}}}}
  - hearAgain: {listen: {to: {any: [{with: {type: b}}, {with: {type: a}}]}}, timeout: {after: PT1M}}
`, "", search.Search{})
	if got := hintsOf(r, "advice"); got["later"]+got["computed"] != "" {
		t.Errorf("hints %v, want none about inputs", got)
	}
}

// Simultaneous events arrive in any order.
func TestSearchEvents(t *testing.T) {
	t.Parallel()
	r := look(t, `
do:
  - hear: {listen: {to: {any: [{with: {type: a}}, {with: {type: b}}]}}}
`, `events: [{after: PT5S, type: a, source: /x, data: a}, {after: PT5S, type: b, source: /x, data: b}]`, search.Search{})
	if len(r.Findings) != 1 || r.Findings[0].Class != search.Race || len(r.Outcomes) != 2 {
		t.Errorf("findings %+v, outcomes %+v", r.Findings, r.Outcomes)
	}
}
