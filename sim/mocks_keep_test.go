package sim_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"flunq.io/flunq/sim"
)

// A mock that keeps what it is sent answers as a service does that stores things.
func TestMocksKeep(t *testing.T) {
	t.Parallel()
	m := parse(t, `
http:
  - {match: {url: "https://shop.example/items/*"}, keep: {n: 3, name: tea}}
  - {match: {url: "https://shop.example/none"}, keep: null}
  - {match: {url: "https://shop.example/bad"}, keep: 1, respond: [{status: 500}, {status: 201}]}
`)
	transport := m.Transport(nil, nil)
	for _, step := range []struct{ method, url, body, want string }{
		{"GET", "items/1?x=1", "", `200 {"n":3,"name":"tea"}`},
		{"PUT", "items/1", `{"n":4}`, `200 {"n":4}`},
		{"GET", "items/1", "", `200 {"n":4}`},
		{"GET", "items/2", "", `200 {"n":3,"name":"tea"}`},
		{"PATCH", "items/2", `{"n":5}`, `200 {"n":5,"name":"tea"}`},
		{"DELETE", "items/1", "", `200 `},
		{"GET", "items/1", "", `404 `},
		{"POST", "items/1", `text`, `200 text`},
		{"GET", "none", "", `404 `},
		{"PUT", "bad", `2`, `500 `},
		{"GET", "bad", "", `201 1`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), step.method, "https://shop.example/"+step.url, strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if got := res.Status[:4] + string(body); err != nil || got != step.want {
			t.Errorf("%s %s: %q, %v, want %q", step.method, step.url, got, err, step.want)
		}
		_ = res.Body.Close()
	}
}

const lostUpdate = `
document: {dsl: '1.0.3', namespace: test, name: stock, version: '1.0.0'}
do:
  - both:
      fork:
        branches:
          - one: &add
              do:
                - read: {call: http, with: {method: get, endpoint: "https://shop.example/stock"}}
                - write: {call: http, with: {method: put, endpoint: "https://shop.example/stock", body: {n: "${ .n + 1 }"}}}
          - two: *add
  - end: {call: http, with: {method: get, endpoint: "https://shop.example/stock"}}
`

// Two branches that read, add and write lose an update where their calls cross.
func TestSearchFindsALostUpdate(t *testing.T) {
	t.Parallel()
	s := sim.Search{
		Config: sim.Config{
			Definition: definition(t, "stock.yaml", []byte(lostUpdate)), Processes: 2,
			Mocks: parse(t, `http: [{match: {url: "https://shop.example/stock"}, keep: {n: 0}}]`),
		},
		First: 1, Last: 50,
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Outcomes) != 2 || len(r.Findings) != 1 {
		t.Fatalf("outcomes %v, findings %v", r.Outcomes, r.Findings)
	}
	if rarer := r.Outcomes[1].Runs; rarer < r.Plain/5 {
		t.Errorf("%d of %d runs come to the rarer outcome", rarer, r.Plain)
	}
	f := r.Findings[0]
	if f.Class != sim.Race || f.Task != "/do/0/both" || f.Orders == nil {
		t.Errorf("%s %v %s", f.Class, f.Violation, f.Task)
	}
}

// Calls that take as long as each other cross in the same way each time, unless a
// fault holds one of them up: that is told as such, also where only their own order is
// another one.
func TestSearchTellsAnOrderOfCalls(t *testing.T) {
	t.Parallel()
	r := search(t, strings.SplitAfterN(lostUpdate, "\n", 3)[2],
		`http: [{match: {url: "https://shop.example/stock"}, keep: {n: 0}, respond: [{latency: PT0.1S}]}]`,
		sim.Search{Kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.Delay, sim.Clock}, Singles: 50, Last: 250})
	if len(r.Outcomes) != 1 || len(r.Findings) == 0 {
		t.Errorf("%d outcomes, %d findings", len(r.Outcomes), len(r.Findings))
	}
	for _, f := range r.Findings {
		if f.Class != sim.Late {
			t.Errorf("%s: %v", f.Class, f.Violation)
		}
	}
}
