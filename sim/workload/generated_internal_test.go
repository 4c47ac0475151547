package workload

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// writer writes random documents with tasks of all kinds, whose outcome does not depend on
// time or order.
type writer struct {
	*rand.Rand
	names int
	lines strings.Builder
	short bool // waits are very short, and nothing waits for days
}

// More documents, and more seeds of each, than in an ordinary test run.
var (
	documents = flag.Uint64("documents", 40, "generated documents to simulate")
	seeds     = flag.Uint64("seeds", 5, "seeds of each generated document")
)

// second formats a wait in seconds.
func (w *writer) second(n int) string {
	if w.short {
		return fmt.Sprintf("PT0.%03dS", n)
	}
	return fmt.Sprintf("PT%dS", n)
}

func (w *writer) document() string {
	w.lines.WriteString("document: {dsl: '1.0.3', namespace: test, name: generated, version: '1.0.0'}\ndo:\n")
	w.list("  ", 3, 1+w.IntN(4))
	return w.lines.String()
}

// list writes tasks, nested up to depth.
func (w *writer) list(indent string, depth, count int) {
	for range count {
		w.names++
		w.task(indent, fmt.Sprintf("t%d", w.names), depth)
	}
}

func (w *writer) line(indent, format string, args ...any) {
	w.lines.WriteString(indent)
	fmt.Fprintf(&w.lines, format, args...)
	w.lines.WriteByte('\n')
}

func (w *writer) task(indent, name string, depth int) {
	kinds := 6
	if depth > 0 {
		kinds = 12
		if !w.short {
			kinds = 13
		}
	}
	in := indent + "    "
	switch w.IntN(kinds) {
	case 0:
		w.line(indent, `- %s: {set: {n: "${ ((.n? // 0) | numbers // 0) + %d }", by: %s}}`, name, w.IntN(9), name)
	case 1:
		w.line(indent, `- %s: {wait: %s}`, name, w.second(1+w.IntN(100)))
	case 2:
		w.line(indent, `- %s: {call: http, with: {method: get, endpoint: "https://a.example/%s"}}`, name, name)
	case 3:
		w.line(indent, `- %s: {emit: {event: {with: {type: com.example.%s, source: /test, time: '2026-01-01T00:00:00Z', data: {a: 1}}}}}`, name, name)
	case 4:
		w.line(indent, `- %s: {if: '%v', set: {skipped: no}, export: {as: {last: %s}}}`, name, w.IntN(2) == 0, name)
	case 5:
		w.line(indent, `- %s: {switch: [{some: {when: '(.n? // 0) > %d', then: continue}}, {other: {then: continue}}]}`, name, w.IntN(9))
	case 6:
		w.line(indent, `- %s:`, name)
		w.line(in, `for: {in: "[range(%d)]"}`, w.IntN(4))
		w.line(in, `do:`)
		w.list(in+"  ", depth-1, 1+w.IntN(2))
	case 7:
		w.line(indent, `- %s:`, name)
		w.line(in, `fork:`)
		w.line(in, `  branches:`)
		w.list(in+"    ", depth-1, 1+w.IntN(3))
	case 8:
		w.line(indent, `- %s:`, name)
		w.line(in, `try:`)
		w.list(in+"  ", depth-1, 1+w.IntN(2))
		w.line(in, `  - bad%s: {raise: {error: {type: https://a.example/bad, status: 500}}}`, name)
		w.line(in, `catch:`)
		w.line(in, `  retry: {delay: %s, limit: {attempt: {count: %d}}}`, w.second(1+w.IntN(5)), 1+w.IntN(2))
		w.line(in, `  do:`)
		w.line(in, `    - caught%s: {set: {caught: "${ $error.status }"}}`, name)
	case 9:
		w.line(indent, `- %s:`, name)
		w.line(in, `timeout: {after: P300D}`)
		w.line(in, `do:`)
		w.list(in+"  ", depth-1, 1+w.IntN(3))
	case 10:
		w.line(indent, `- %s: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {n: %d}}}}`, name, w.IntN(9))
	case 11:
		w.line(indent, `- %s:`, name)
		w.line(in, `fork:`)
		w.line(in, `  compete: true`)
		w.line(in, `  branches:`)
		w.line(in, `    - never%s: {%s}`, name, []string{
			`wait: P300D`, `listen: {to: {one: {with: {type: com.example.never}}}}`,
			`run: {workflow: {namespace: test, name: sleeper, version: '1.0.0', input: {}}}`,
		}[w.IntN(3)])
		w.list(in+"    ", depth-1, 1)
	case 12:
		w.line(indent, `- %s:`, name)
		w.line(in, `fork:`)
		w.line(in, `  branches:`)
		w.line(in, `    - hear%s: {listen: {to: {one: {with: {type: com.example.%s}}}}}`, name, name)
		w.line(in, `    - say%s:`, name)
		w.line(in, `        do:`)
		w.line(in, `          - rest%s: {wait: P1D}`, name)
		w.line(in, `          - tell%s: {emit: {event: {with: {type: com.example.%s, source: /test, time: '2026-01-01T00:00:00Z', data: {by: %s}}}}}`, name, name, name)
	}
}

// Random documents end in the same way with faults as without, and the same seed gives
// the same run.
func TestGeneratedDocuments(t *testing.T) {
	t.Parallel()
	mocks, err := mock.Parse("mocks.yaml", []byte("http: [{respond: [{status: 200, latency: PT3S, body: {n: 1}}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	faults, with := 0, children()
	for n := range *documents {
		w := &writer{Rand: rand.New(rand.NewPCG(n, 1))}
		text := w.document()
		def, _, err := dsl.Parse("generated.yaml", []byte(text))
		if err != nil {
			t.Fatalf("document %d: %v\n%s", n, err, text)
		}
		cfg := sim.Config{
			Definition: def, ID: "x", Processes: 2, Executors: 3, Executions: 1 + int(n%2), Remote: n%3 == 0, Mocks: mocks, With: with,
			MaxTime: 3000 * 24 * time.Hour,
		}
		plain := tried(t, cfg, sim.Plan{})
		plan := sim.Plan{Rate: 80, Most: 8, Kinds: []sim.FaultKind{
			sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Duplicate, sim.Delay, sim.Outage, sim.Clock,
		}}
		for seed := range *seeds {
			cfg.Seed = seed
			got := tried(t, cfg, plan)
			faults += len(got.Injected)
			if seed == 0 && tried(t, cfg, plan).Order != got.Order {
				t.Errorf("document %d: the same seed gave another order", n)
			}
			sameEnd(t, plain, got)
			if t.Failed() {
				t.Fatalf("document %d, seed %d:\n%s", n, seed, text)
			}
		}
	}
	t.Logf("%d documents, %d runs, %d faults", *documents, *documents**seeds, faults)
}
