package spec_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/spec"
)

// order charges a card, and waits a day for large amounts.
const order = `document: {dsl: '1.0.3', namespace: shop, name: order, version: '0.1.0'}
do:
  - charge:
      try:
        - pay: {call: http, with: {method: post, endpoint: https://pay.example/charge, body: {amount: "${ .amount }"}}}
      catch:
        errors: {with: {status: 402}}
        retry: {delay: PT1H, limit: {attempt: {count: 1}}}
  - decide:
      switch:
        - big: {when: "${ .amount > 100 }", then: review}
        - odd: {when: "${ .amount % 2 == 1 }", then: review}
        - small: {then: done}
  - review: {wait: P1D}
  - done:
      set: {paid: true, amount: "${ .amount }", tags: [a, b]}
  - tell:
      if: ${ .amount > 1000 }
      emit: {event: {with: {type: shop.order.large, source: /shop}}}
  - ring:
      listen: {to: {one: {with: {type: shop.bell}}}}
      if: ${ .amount == 13 }
`

// files are file contents by name.
type files map[string]string

func (w files) read(file string) ([]byte, error) {
	if text, ok := w[file]; ok {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("%s: %w", file, fs.ErrNotExist)
}

// suite reads a test file next to the order workflow.
func suite(t testing.TB, w files) *spec.Suite {
	t.Helper()
	w["order.yaml"] = order
	s, _, err := spec.NewLoader(w.read).Load("order.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, c *spec.Case, see func(*spec.Outcome)) *spec.Verdict {
	t.Helper()
	v, err := c.Run(t.Context(), sim.Config{}, see)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// mocks answers every charge with the amount 5.
const mocks = `mocks: {http: [{match: {url: "https://pay.example/charge"}, respond: {body: {amount: 5}}}]}
`

// differences returns the differences of one case, one per line.
func differences(t *testing.T, test string) string {
	t.Helper()
	s := suite(t, files{"order.test.yaml": mocks + "tests:\n" + test})
	var out []string
	for _, d := range run(t, s.Cases[0], nil).Differences {
		line := fmt.Sprintf("%s%s %d:%d", d.Expect, d.Path, d.At.Line, d.At.Col)
		if d.Source.Line > 0 {
			line += fmt.Sprintf(" %s:%d", d.Task, d.Source.Line)
		}
		for _, l := range d.Lines {
			line += fmt.Sprintf(" %c%s", l.Mark, l.Text)
		}
		if d.Why != "" {
			line += " (" + d.Why + ")"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ test, want string }{
		"nothing expected":            {`  - {name: a}`, ""},
		"a part of the output":        {`  - {name: a, expect: {output: {paid: true}}}`, ""},
		"numbers by value":            {`  - {name: a, expect: {output: {amount: 5.0}}}`, ""},
		"another value":               {`  - {name: a, expect: {output: {amount: 6}}}`, "output.amount 3:41 done:15 -6 +5"},
		"no such member":              {`  - {name: a, expect: {output: {sum: 6}}}`, "output.sum 3:38 done:15 -6 +nothing"},
		"a list is whole":             {`  - {name: a, expect: {output: {tags: [a]}}}`, `output.tags 3:39 done:15 -["a"] +["a","b"] (2 items, want 1)`},
		"in a list":                   {`  - {name: a, expect: {output: {tags: [a, c]}}}`, `output.tags[1] 3:43 done:15 -"c" +"b"`},
		"an expression":               {`  - {name: a, expect: {output: "${ .amount == 5 and ($input | length == 0) }"}}`, ""},
		"an expression inside":        {`  - {name: a, expect: {output: {amount: "${ . > 5 }"}}}`, "output.amount 3:41 done:15 -${ . > 5 } +5 (the expression is not true)"},
		"a status":                    {`  - {name: a, expect: {status: waiting}}`, "status 3:32 done:15 -waiting +completed"},
		"an error that does not come": {`  - {name: a, expect: {error: timeout}}`, "status 3:31 done:15 -faulted +completed"},
		"time":                        {`  - {name: a, expect: {elapsed: P2D}}`, "elapsed 3:33 done:15 -P2D +P1D"},
		"bounds":                      {`  - {name: a, expect: {elapsed: ["<= PT25H", ">= P1D"]}}`, ""},
		"a bound":                     {`  - {name: a, expect: {elapsed: "> P1M"}}`, "elapsed 3:33 done:15 -> P1M +P1D"},
		"tasks":                       {`  - {name: a, expect: {tasks: [pay, decide, review, done]}}`, ""},
		"tasks that hold others":      {`  - {name: a, expect: {tasks: [charge, pay, /do/1/decide, review, done]}}`, ""},
		"other tasks":                 {`  - {name: a, expect: {tasks: [pay, decide, tell, done]}}`, "tasks 3:45 review:14  pay  decide -tell +review  done"},
		"a request":                   {`  - {name: a, expect: {requests: [{method: post, url: "*/charge", body: {amount: null}}]}}`, ""},
		"requests": {
			`  - {name: a, expect: {requests: [{url: "*/charge", times: "> 1"}]}}`,
			"requests[0] 3:35 pay:5 -times > 1 +once  sent: POST https://pay.example/charge, once (*/charge)",
		},
		"no requests": {`  - {name: a, expect: {requests: []}}`, "requests 3:34 pay:5 -no request +POST https://pay.example/charge, once"},
		"events":      {`  - {name: a, expect: {events: [{type: x}]}}`, `events 3:32 done:15 -[{"type":"x"}] +[] (0 items, want 1)`},
		"an event": {
			`  - {name: a, mocks: {http: [{respond: {body: {amount: 2000}}}]}, expect: {events: [{type: shop.order.large}], elapsed: P1D}}`, "",
		},
		"an error": {
			`  - {name: a, mocks: {http: [{respond: {status: 402}}]}, expect: {error: {type: communication, status: 402, title: "${ length > 3 }"}, elapsed: PT1H}}`, "",
		},
		"another error": {
			`  - {name: a, mocks: {http: [{respond: {status: 418}}]}, expect: {error: timeout}}`,
			`error.type 3:74 pay:5 -"timeout" +"https://serverlessworkflow.io/spec/1.0.0/errors/communication"`,
		},
		"an error that is caught nowhere": {
			`  - {name: a, mocks: {http: [{respond: {status: 418}}]}}`,
			"status 3:12 pay:5 -completed +faulted: I'm a teapot: POST https://pay.example/charge answered 418 I'm a teapot (communication)",
		},
		"waiting": {
			`  - {name: a, mocks: {http: [{respond: {body: {amount: 13}}}]}, until: P3D, expect: {status: waiting, elapsed: P1D}}`, "",
		},
		"stopped": {
			`  - {name: a, mocks: {http: [{respond: {body: {amount: 13}}}]}, until: PT1H}`,
			"status 3:12 review:14 -completed +waiting when it was stopped after PT1H",
		},
		"events of the case": {
			`  - {name: a, mocks: {http: [{respond: {body: {amount: 13}}}], events: [{after: P2D, type: shop.bell}]}, expect: {elapsed: P2D}}`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, differences(t, c.test)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// A request that no mock answers fails the case, even if the workflow handles the error.
func TestUnansweredRequest(t *testing.T) {
	t.Parallel()
	s := suite(t, files{"order.test.yaml": "tests: [{name: a, expect: {status: faulted}}]\n"})
	found := run(t, s.Cases[0], nil).Differences
	if len(found) != 1 || found[0].Expect != "mocks" || !strings.HasPrefix(found[0].Why, "no mock answers POST https://pay.example/charge") {
		t.Errorf("differences are %+v, want one about the mocks", found)
	}
}

// Secrets are redacted in differences.
func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	w := files{
		"order.yaml": `document: {dsl: '1.0.3', namespace: shop, name: order, version: '0.1.0'}
use: {secrets: [token]}
do: [{leak: {set: {token: "${ $secrets.token }"}}}]
`,
		"order.test.yaml": "secrets: {token: swordfish}\ntests: [{name: a, expect: {output: {token: swordfisch}}}]\n",
	}
	s, _, err := spec.NewLoader(w.read).Load("order.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := run(t, s.Cases[0], nil).Differences
	if len(found) != 1 || found[0].Got() != `"***"` {
		t.Errorf("differences are %+v, want the secret as ***", found)
	}
}

// Every mistake of a test file has its position.
func TestMistakes(t *testing.T) {
	t.Parallel()
	w := files{"order.yaml": order, "x.json": "[1"}
	w["order.test.yaml"] = `with: [none.yaml, ""]
input: "@x.json"
tests:
  - name: a
    inputs: {a: 1}
    seeds: 9:1
    start: today
    network: please
    expect:
      status: complete
      tasks: [dne, /do/9/x]
      output: "${ .a | foo }"
      elapsed: PT
      error: {kind: timeout}
      requests: [{times: x}]
      events: {}
  - name: a
  - expect: {}
  - name: b
    expect: {status: faulted, output: 1}
  - name: c
    expect: {status: waiting, error: timeout}
`
	_, _, err := spec.NewLoader(w.read).Load("order.test.yaml")
	if err == nil {
		t.Fatal("want an error")
	}
	want := `order.test.yaml:1:8: none.yaml: file does not exist
order.test.yaml:1:19: with is empty, want the name of a document
order.test.yaml:5:5: unknown key "inputs" in a test, did you mean "input"?
order.test.yaml:6:12: seeds: want a list of 1 to 10000 numbers, or a range such as 1:20
order.test.yaml:7:12: start is "today", want a time such as 2026-01-31T08:00:00Z
order.test.yaml:8:14: network is "please", want true or false
order.test.yaml:10:7: expect has both an output and an error, but a run has only one of them
order.test.yaml:10:15: status is "complete", did you mean "completed"?
order.test.yaml:11:15: no task "dne" in order.yaml, did you mean "done"?
order.test.yaml:11:20: no task /do/9/x in order.yaml
order.test.yaml:12:15: jq has no function foo (for the member, write .foo; for the text, write "foo")
order.test.yaml:13:16: elapsed: "PT" is not an ISO 8601 duration (write it as PT5S (5 seconds), PT10M (10 minutes) or P1D (1 day))
order.test.yaml:14:15: error has no member "kind", want one of type, status, title, detail, instance
order.test.yaml:15:26: times is "x", want a number, or a comparison such as "<= 3"
order.test.yaml:16:15: events is a map, want a list
order.test.yaml:17:5: a second test with the name "a": the first is on line 4
order.test.yaml:18:5: the test has no name
order.test.yaml:20:22: status is faulted, but only a completed run has an output
order.test.yaml:22:22: status is waiting, but only a faulted run has an error
x.json:1:1: this [ is never closed`
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("mistakes differ (-want +got):\n%s", diff)
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Error("a missing file is a mistake in the test file, not of the caller")
	}
}

// A file that several test files name is read once.
func TestFilesAreReadOnce(t *testing.T) {
	t.Parallel()
	w := files{"order.yaml": order, "m.yaml": "http: []", "in.json": "{}"}
	read := map[string]int{}
	l := spec.NewLoader(func(file string) ([]byte, error) {
		read[file]++
		return w.read(file)
	})
	for i := range 3 {
		file := fmt.Sprintf("t%d.test.yaml", i)
		w[file] = "workflow: order.yaml\nmocks: m.yaml\ntests: [{name: a, input: '@in.json'}, {name: b, input: '@in.json'}]\n"
		if _, needs, err := l.Load(file); err != nil || len(needs) < 4 {
			t.Errorf("Load = needs %v, %v", needs, err)
		}
	}
	for file, n := range read {
		if n != 1 {
			t.Errorf("%s was read %d times", file, n)
		}
	}
}

func BenchmarkCases(b *testing.B) {
	s := suite(b, files{"order.test.yaml": mocks + "tests: [{name: a, expect: {output: {paid: true}, tasks: [pay, decide, review, done]}}]\n"})
	n := 0
	for b.Loop() {
		if v := run(b, s.Cases[0], nil); len(v.Differences) > 0 {
			b.Fatal(v.Differences)
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "cases/s")
}
