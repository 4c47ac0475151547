package search_test

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/search"
)

// look searches seeds of a document.
func look(t *testing.T, doc, mocks string, s search.Search) *search.Report {
	t.Helper()
	s.Config.Definition = document(t, "search", doc)
	if mocks != "" {
		var err error
		if s.Config.Mocks, err = mock.Parse("mocks.yaml", []byte(mocks)); err != nil {
			t.Fatal(err)
		}
	}
	if s.First == 0 {
		s.First = 1
	}
	if s.Last == 0 {
		s.Last = 30
	}
	s.Config.Processes = max(s.Config.Processes, 2)
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Logf("%s: %v: %d runs, %d tried, faults %v", f.Class, f.Violation, f.Runs, f.Tried, f.Small.Faults)
	}
	for _, h := range r.Hints {
		t.Logf("hint %s: %s", h.Kind, h.Text)
	}
	return r
}

// document returns a document with a name and tasks.
func document(t testing.TB, name, tasks string) *dsl.Definition {
	t.Helper()
	text := "document: {dsl: '1.0.3', namespace: test, name: " + name + ", version: '1.0.0'}\n" + tasks
	def, _, err := dsl.Parse(name+".yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return def
}

const competing = `
do:
  - first:
      fork:
        compete: true
        branches:
          - express: {call: http, with: {method: GET, endpoint: "https://a.example/"}, output: {as: '"express"'}}
          - standard: {call: http, with: {method: GET, endpoint: "https://b.example/"}, output: {as: '"standard"'}}
`

// Competing branches race, and the two orders are shown.
func TestSearchRace(t *testing.T) {
	t.Parallel()
	r := look(t, competing, `http: [{match: {method: GET}, respond: {body: {}}}]`, search.Search{})
	if len(r.Findings) != 1 || r.Findings[0].Class != search.Race {
		t.Fatalf("findings %+v, want a race", r.Findings)
	}
	f := r.Findings[0]
	first, second := f.Orders.Branches()
	if first == nil || second == nil || first == second || f.Orders.Fork.Name != "first" {
		t.Fatalf("orders %+v", f.Orders)
	}
	if len(f.Differ) != 1 || f.Differ[0].Path != "/output" {
		t.Errorf("differ %+v", f.Differ)
	}
	if len(r.Outcomes) != 2 {
		t.Errorf("%d outcomes, want 2", len(r.Outcomes))
	}
}

// Branches that export the same member do not race: the value of the last branch is kept.
func TestSearchExports(t *testing.T) {
	t.Parallel()
	r := look(t, `
do:
  - both:
      fork:
        branches:
          - a: {set: {v: 1}, export: {as: "${ {winner: .v} }"}}
          - b: {set: {v: 2}, export: {as: {winner: "${ .v }"}}}
  - tell: {set: "${ $context.winner }"}
`, "", search.Search{Kinds: sim.Faults(), Singles: 200})
	if len(r.Findings)+len(r.Hints) != 0 {
		t.Errorf("findings %+v, hints %+v", r.Findings, r.Hints)
	}
}

const charging = `
do:
  - charge: {call: http, with: {method: POST, endpoint: "https://pay.example/charge"}}
`

// A call that is repeated after a crash is found with one fault; without --once it is
// only a hint.
func TestSearchOnce(t *testing.T) {
	t.Parallel()
	mocks := `http: [{match: {method: POST}, respond: {body: {ok: true}, latency: PT1S}}]`
	kinds := []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply}
	check, made := search.Once("POST", "https://pay.example/*")
	r := look(t, charging, mocks, search.Search{Kinds: kinds, Checks: []search.Check{check}})
	if !made() {
		t.Error("made = false, want true")
	}
	if len(r.Findings) != 1 || r.Findings[0].Class != search.Expectation || len(r.Findings[0].Small.Faults) != 1 || !r.Findings[0].Confirmed {
		t.Fatalf("findings %+v", r.Findings)
	}
	if got := hintsOf(r, "repeat"); len(got) != 0 { // the finding reports it already
		t.Errorf("hints %v", got)
	}
	r = look(t, charging, mocks, search.Search{Kinds: kinds})
	if len(r.Findings) != 0 || len(hintsOf(r, "repeat")) != 1 {
		t.Errorf("without it: findings %+v, hints %+v", r.Findings, r.Hints)
	}
}

// There is a hint for each timeout that can never fire.
func TestSearchTimeouts(t *testing.T) {
	t.Parallel()
	r := look(t, `
timeout: {after: P1D}
do:
  - short: {wait: PT5S, timeout: {after: PT10M}}
  - none: {set: {a: 1}, timeout: {after: PT1H}}
  - useful: {wait: PT10S, timeout: {after: PT1H}}
  - outer:
      timeout: {after: PT5M}
      do:
        - inner:
            timeout: {after: PT1H}
            do:
              - pause: {wait: "${ \"PT1S\" }"}
`, "", search.Search{})
	reported := hintsOf(r, "timeout")
	for _, name := range []string{"short", "none", "useful", "inner", ""} {
		if reported[name] == "" {
			t.Errorf("no hint about %q", name)
		}
	}
	if len(reported) != 5 || len(r.Findings) != 0 {
		t.Errorf("hints %v, findings %v", reported, r.Findings)
	}
}

// A timeout that fires because a process froze is the workflow's responsibility.
func TestSearchLate(t *testing.T) {
	t.Parallel()
	r := look(t, `
do:
  - ask: {call: http, with: {method: GET, endpoint: "https://a.example/"}, timeout: {after: PT10S}}
`, `http: [{match: {method: GET}, respond: {body: {}, latency: PT2S}}]`, search.Search{Kinds: sim.Faults()})
	if len(r.Findings) == 0 {
		t.Fatal("nothing found")
	}
	for _, f := range r.Findings {
		if f.Class != search.Late {
			t.Errorf("%s: %v", f.Class, f.Violation)
		}
	}
}

// Of twelve faults only the necessary one remains.
func TestSearchShrinks(t *testing.T) {
	t.Parallel()
	lostReply := func(tr *sim.Trial) []sim.Violation {
		for _, s := range tr.Injected {
			if s.Kind == sim.DropReply && strings.HasPrefix(s.Service, "worker") {
				return []sim.Violation{{Rule: "no worker loses a reply"}}
			}
		}
		return nil
	}
	r := look(t, tenSteps(), "", search.Search{
		Kinds: sim.Faults(), Rate: 20, Singles: 1, First: 3, Last: 12, Checks: []search.Check{lostReply},
		Config: sim.Config{Executions: 5, Processes: 3},
	})
	if len(r.Findings) != 1 {
		t.Fatalf("findings %+v", r.Findings)
	}
	f := r.Findings[0]
	if len(f.Seen.Faults) < 5 || len(f.Small.Faults) != 1 || f.Small.Executions != 1 || f.Tried > 100 {
		t.Errorf("from %+v to %+v in %d runs", f.Seen, f.Small, f.Tried)
	}
}

// The user's expectations are checked in every run.
func TestSearchExpect(t *testing.T) {
	t.Parallel()
	p, err := expr.Compile(`. == "express" and $status == "completed"`, search.ExpectVariable)
	if err != nil {
		t.Fatal(err)
	}
	r := look(t, competing, `http: [{match: {method: GET}, respond: {body: {}}}]`,
		search.Search{Checks: []search.Check{search.Always(p.Source(), p, nil)}})
	if len(r.Findings) != 2 || r.Findings[0].Class != search.Expectation {
		t.Errorf("findings %+v", r.Findings)
	}
}

// A value that depends on the date of the run does not make the outcome differ.
func TestSearchClock(t *testing.T) {
	t.Parallel()
	r := look(t, `
do:
  - pause: {wait: PT1S}
  - tell: {set: {at: "${ now }", day: "${ now | todate }", n: 1}}
`, "", search.Search{})
	if len(r.Findings) != 0 || len(r.Outcomes) != 1 {
		t.Errorf("findings %+v, %d outcomes", r.Findings, len(r.Outcomes))
	}
}

// The report does not depend on the number of concurrent runs.
func TestSearchParallel(t *testing.T) {
	t.Parallel()
	var orders []int
	for _, parallel := range []int{1, 3} {
		r := look(t, tenSteps(), "", search.Search{Kinds: sim.Faults(), Singles: 40, Parallel: parallel})
		orders = append(orders, r.Orders, len(r.Findings), r.Faults[sim.Delay])
	}
	if orders[0] != orders[3] || orders[1] != orders[4] || orders[2] != orders[5] {
		t.Errorf("with one and with three: %v", orders)
	}
}

// A scenario survives a round trip through JSON.
func TestParseScenario(t *testing.T) {
	t.Parallel()
	sc, err := search.ParseScenario([]byte(`{"seed":7,"processes":2,"executions":1,"faults":[{"kind":"delay","service":"worker-sim-0","command":3,"amount":"45s"}]}`))
	if err != nil || sc.Faults[0].Amount.Seconds() != 45 {
		t.Fatalf("%+v, %v", sc, err)
	}
	for _, bad := range []string{`{"seeds":1}`, `{"faults":[{"kind":"x"}]}`, `{"processes":0}`, `{} {}`, `{"faults":[{"kind":"delay","amount":"1 day"}]}`} {
		if _, err := search.ParseScenario([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// A lost response of a child's call, and all its consequences, are the workflow's
// responsibility.
func TestSearchChild(t *testing.T) {
	t.Parallel()
	child := document(t, "child", `
do:
  - ask: {call: http, with: {method: GET, endpoint: "https://a.example/"}}
`)
	r := look(t, `
do:
  - first: {try: [{ask: {call: http, with: {method: GET, endpoint: "https://b.example/"}}}], catch: {as: why, do: [{sad: {set: {n: 0}}}]}}
  - ask: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {n: "${ .n }"}}}}
`, `http: [{match: {method: GET}, respond: {body: {n: 1}}}]`,
		search.Search{Kinds: []sim.FaultKind{sim.CallLost}, Config: sim.Config{With: []*dsl.Definition{child}}, Last: 200, Rate: 2})
	if len(r.Findings) != 1 || r.Findings[0].Class != search.Late || r.Findings[0].Execution != "sim" {
		t.Errorf("findings %+v", r.Findings)
	}
}

// A child that is cancelled without faults may have ended when the cancellation comes,
// and a task may have ended when its timeout fires: faults delayed them for that long,
// which is no failure.
func TestSearchLateEnds(t *testing.T) {
	t.Parallel()
	child := document(t, "child", `
do:
  - nap: {wait: PT30S}
  - tell: {set: {done: true}}
`)
	r := look(t, `
do:
  - wanted:
      try: [{kid: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {n: 1}}}, timeout: {after: PT5S}}}]
      catch: {do: [{late: {set: {late: true}}}]}
  - rest: {wait: PT40S}
`, "", search.Search{Kinds: sim.Faults(), Singles: 700, Last: 5, Config: sim.Config{With: []*dsl.Definition{child}}})
	rules := map[string]bool{}
	for _, f := range r.Findings {
		rules[f.Rule] = true
		if f.Class != search.Late {
			t.Errorf("%s: %v", f.Class, f.Violation)
		}
	}
	for _, rule := range []string{search.RuleCancel, search.RuleTimeout} {
		if !rules[rule] {
			t.Errorf("%s: not found", rule)
		}
	}
}

// An output that contains the execution's own id, for example in an emitted event, is the
// same outcome in another tenant, where the id differs.
func TestSearchOwnID(t *testing.T) {
	t.Parallel()
	r := look(t, `
do:
  - note: {set: {me: "${ $workflow.id }"}}
  - tell: {emit: {event: {with: {type: com.example.done, source: /x, time: '2026-01-01T00:00:00Z'}}}, output: {as: "${ [., $input] }"}}
`, "", search.Search{Kinds: sim.Faults(), Singles: 60, Last: 60})
	for _, f := range r.Findings {
		t.Errorf("%s: %v", f.Class, f.Violation)
	}
}

// A timeout that fires because a fault made a task miss an event is the document's responsibility,
// whether a task listens for another type of event or the execution waits for a child that listens.
func TestSearchTimeoutOfMissedEvent(t *testing.T) {
	t.Parallel()
	const ask = `{call: http, with: {method: post, endpoint: "https://a.example/"}}`
	child := document(t, "child", "do: [{ask: "+ask+"}, {hear: {listen: {to: {one: {with: {type: com.example.paid}}}}}}]")
	for name, c := range map[string]struct {
		doc, after string
		kind       sim.FaultKind
	}{
		"another type": {`
do:
  - ask: {try: [{call: ` + ask + `}], catch: {do: [{sorry: {set: {failed: true}}}]}}
  - choose: {switch: [{bad: {when: .failed, then: other}}, {good: {then: hear}}]}
  - hear: {listen: {to: {one: {with: {type: com.example.paid}}}}, then: end}
  - other: {listen: {to: {one: {with: {type: com.example.called}}}}}
`, "PT5M", sim.CallLost},
		"a child": {"\ndo: [{sub: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}}]\n", "PT5S", sim.Clock},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := look(t, "timeout: {after: PT1H}"+c.doc, `
http: [{respond: {latency: PT2S, body: {}}}]
events: [{after: `+c.after+`, type: com.example.paid, source: /shop, data: {n: 1}}]
`, search.Search{Last: 2, Kinds: []sim.FaultKind{c.kind}, Singles: 40, Config: sim.Config{With: []*dsl.Definition{child}}})
			missed := false
			for _, f := range r.Findings {
				if missed = missed || f.Rule == search.RuleEvent; f.Class == search.Engine {
					t.Errorf("it blames the engine: %v", f.Violation)
				}
			}
			if !missed {
				t.Error("no run missed the event")
			}
		})
	}
}
