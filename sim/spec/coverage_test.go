package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/sim/spec"
)

// missed lists the points that no case of a test file has reached: line, kind and name of
// each.
func missed(t *testing.T, w files) string {
	t.Helper()
	s := suite(t, w)
	c := spec.NewCoverage()
	c.Include(s)
	for _, one := range s.Cases {
		run(t, one, func(o *spec.Outcome) { c.Add(s, one.Secrets, o) })
	}
	var out []string
	for _, p := range c.Documents()[0].Points {
		if p.Hits == 0 {
			out = append(out, fmt.Sprintf("%d %s: %s", p.Line, p.Kind, p.Name))
		}
	}
	return strings.Join(out, "\n")
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	answer := func(respond string) string {
		return "mocks: {http: [{respond: " + respond + "}], events: [{after: P2D, type: shop.bell}]}"
	}
	for name, c := range map[string]struct{ tests, want string }{
		"no case": {"tests: []", `3 task: task charge
5 task: task pay
6 catch: catch of charge
8 retry: retry of charge
9 task: task decide
11 case: case big of decide
12 case: case odd of decide
13 default: default small of decide
14 task: task review
15 task: task done
17 task: task tell
18 if: if of tell is true
18 skip: if of tell is false
20 task: task ring
21 event: ring receives its events
22 if: if of ring is true
22 skip: if of ring is false`},
		// Both big and odd lead to review, so the conditions are evaluated again.
		"an odd one": {answer("{body: {amount: 5}}") + "\ntests: [{name: a}]", `6 catch: catch of charge
8 retry: retry of charge
11 case: case big of decide
13 case: default small of decide
17 task: task tell
18 if: if of tell is true
20 task: task ring
21 event: ring receives its events
22 if: if of ring is true`},
		"failures": {answer("[{status: 402}, {body: {amount: 5000}}]") + "\ntests: [{name: a}]", `12 case: case odd of decide
13 case: default small of decide
18 skip: if of tell is false
20 task: task ring
21 event: ring receives its events
22 if: if of ring is true`},
		"an error that nothing catches": {answer("{status: 418}") + "\ntests: [{name: a}]", `6 catch: catch of charge
8 retry: retry of charge
9 task: task decide
11 case: case big of decide
12 case: case odd of decide
13 case: default small of decide
14 task: task review
15 task: task done
17 task: task tell
18 if: if of tell is true
18 skip: if of tell is false
20 task: task ring
21 event: ring receives its events
22 if: if of ring is true
22 skip: if of ring is false`},
		"all cases together": {`tests:
  - {name: a, ` + answer("[{status: 402}, {body: {amount: 5000}}]") + `}
  - {name: b, ` + answer("{body: {amount: 13}}") + `}
  - {name: c, ` + answer("{body: {amount: 2}}") + `}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := strings.ReplaceAll(c.want, "13 default:", "13 case:")
			if diff := cmp.Diff(want, missed(t, files{"order.test.yaml": c.tests + "\n"})); diff != "" {
				t.Errorf("not reached (-want +got):\n%s", diff)
			}
		})
	}
}

// Timeouts of all kinds, branches, and catches without do are counted.
func TestCoverageOfTimeouts(t *testing.T) {
	t.Parallel()
	w := files{
		"slow.yaml": `document: {dsl: '1.0.3', namespace: shop, name: slow, version: '0.1.0'}
timeout: {after: P9D}
do:
  - ask:
      try: [{look: {wait: PT5H}}]
      catch:
        retry: {limit: {attempt: {count: 2, duration: PT1H}, duration: P1D}}
        do: [{note: {set: {late: true}}}]
  - race:
      fork:
        compete: true
        branches:
          - fast: {wait: PT1H}
          - slow: {wait: PT2H}
  - hurry:
      try: [{sleep: {wait: P3D, timeout: {after: P1D}}}]
      catch: {errors: {with: {type: https://serverlessworkflow.io/spec/1.0.0/errors/timeout}}}
  - other:
      switch:
        - never: {when: "${ false }", then: end}
`,
		"slow.test.yaml": "tests: [{name: a}]\n",
	}
	s, _, err := spec.NewLoader(w.read).Load("slow.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := spec.NewCoverage()
	run(t, s.Cases[0], func(o *spec.Outcome) { c.Add(s, nil, o) })
	got := map[string]int{}
	for _, p := range c.Documents()[0].Points {
		got[p.Name] = p.Hits
	}
	want := map[string]int{
		"the workflow times out": 0,
		"task ask":               1, "task look": 3, "task note": 1, "catch of ask": 3, "retry of ask": 2,
		"an attempt of ask times out":           3,
		"all attempts of ask together time out": 0,
		"task race":                             1, "branch fast": 1, "branch slow": 1,
		"task hurry": 1, "task sleep": 1, "sleep times out": 1, "catch of hurry": 1,
		"task other": 1, "case never of other": 0, "no case of other matches": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hits (-want +got):\n%s", diff)
	}
}
