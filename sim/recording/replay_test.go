package recording_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/recording"
	"flunq.io/flunq/workflows"
)

// recorded runs a workflow and returns its recording.
func recorded(t testing.TB, cfg sim.Config) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := recording.Record(t.Context(), cfg, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// replayed replays a recording.
func replayed(t testing.TB, src []byte, opts recording.ReplayOptions) *recording.Verdict {
	t.Helper()
	rec, err := recording.Read("run.jsonl", src, nil, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	v, err := recording.NewReplayer(opts).Replay(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// recordedText returns the recording of a document with mocks.
func recordedText(t *testing.T, doc, mocks string, secrets map[string]any) []byte {
	t.Helper()
	cfg := sim.Config{Definition: documentOf(t, "doc", []byte(heading+doc)), ID: "x", Secrets: secrets}
	var err error
	if cfg.Mocks, err = mock.Parse("mocks", []byte(mocks)); err != nil {
		t.Fatal(err)
	}
	return recorded(t, cfg)
}

// Every example replays with any seed, both from its decisions and in a full simulation.
func TestReplayExamples(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(6) {
				cfg, _ := exampleOf(t, name)
				cfg.Seed, cfg.Remote, cfg.ID = seed, seed%2 == 1, "example"
				v := replayed(t, recorded(t, cfg), recording.ReplayOptions{StrictOrder: true, Full: true})
				if !v.Agrees || v.Order != recording.SameOrder || len(v.Notes) > 0 {
					t.Errorf("seed %d: %+v, %+v", seed, v, v.Difference)
				}
			}
		})
	}
}

// An exported history without exchanges replays, too, and so does every prefix of it,
// like that of a running execution.
func TestReplayExported(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		cfg, _ := exampleOf(t, name)
		cfg.ID, cfg.Remote = "example", true
		var history []event.Event
		cfg.Observe = func(events []event.Event) {
			for _, e := range events {
				if e.Execution == cfg.ID {
					history = append(history, e)
				}
			}
		}
		result, err := sim.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= len(history); n++ {
			var out bytes.Buffer
			x := recording.NewExport(&out, recording.Exported{
				Definition: cfg.Definition, With: cfg.With, Input: cfg.Input, ID: cfg.ID, Tenant: "default", Start: sim.Epoch(),
			})
			if err := x.Add(history[:n]); err != nil {
				t.Fatal(err)
			}
			if n == len(history) {
				err = x.End(result.Status, result.Output, result.Error)
			} else {
				err = x.End("running", nil, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, opts := range []recording.ReplayOptions{{}, {Workflow: cfg.Definition}} {
				if v := replayed(t, out.Bytes(), opts); !v.Agrees || v.Order != recording.SameOrder {
					t.Errorf("%s, %d of %d events: %+v, %+v", name, n, len(history), v, v.Difference)
				}
			}
		}
	}
}

// One Replayer replays any number of recordings concurrently.
func TestReplayConcurrently(t *testing.T) {
	t.Parallel()
	cfg, _ := exampleOf(t, "order-saga")
	rec, err := recording.Read("run.jsonl", recorded(t, cfg), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	r := recording.NewReplayer(recording.ReplayOptions{Full: true})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if v, err := r.Replay(t.Context(), rec); err != nil || !v.Agrees {
				t.Error(err, v)
			}
		})
	}
	all.Wait()
}

// The replay detects any missing line of a recording, except for lines from which nothing
// follows.
func TestReplayFindsMissingLines(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"order-saga", "checkout", "suppliers", "reminder", "onboarding"} {
		cfg, _ := exampleOf(t, name)
		lines := bytes.SplitAfter(recorded(t, cfg), []byte("\n"))
		lines = lines[:len(lines)-1]
		for i, line := range lines[1 : len(lines)-1] {
			without := bytes.Join(slices.Delete(slices.Clone(lines), i+1, i+2), nil)
			v := replayed(t, without, recording.ReplayOptions{})
			switch {
			case unused(line, lines):
			case v.Agrees:
				t.Errorf("%s: nothing found without line %d: %s", name, i+2, line)
			case v.Difference.Recorded == "" || v.Difference.Replayed == "" || v.Difference.Line == 0:
				t.Errorf("%s: without line %d: %+v", name, i+2, v.Difference)
			}
		}
	}
}

// unused reports whether nothing follows from a line: an event that no task received, or
// a response to a call whose task had ended.
func unused(line []byte, all [][]byte) bool {
	var l struct {
		Record string            `json:"record"`
		Task   string            `json:"task"`
		Open   bool              `json:"open"`
		Event  map[string]string `json:"event"`
	}
	if json.Unmarshal(line, &l) != nil {
		return false
	}
	switch l.Record {
	case "http":
		return l.Open || cancelled(l.Task, all)
	case "event":
		return !slices.ContainsFunc(all, func(other []byte) bool {
			return bytes.Contains(other, []byte("io.flunq.event.received")) && bytes.Contains(other, []byte(`\"id\":\"`+l.Event["id"]+`\"`))
		})
	default:
		return false
	}
}

func cancelled(task string, all [][]byte) bool {
	return slices.ContainsFunc(all, func(line []byte) bool {
		return bytes.Contains(line, []byte(task)) && bytes.Contains(line, []byte(`\"status\":\"cancelled\"`))
	})
}

// mutate replaces old with now in the line of a recording that contains line.
func mutate(t *testing.T, src []byte, line, old, now string) []byte {
	t.Helper()
	lines := strings.SplitAfter(string(src), "\n")
	for i, text := range lines {
		if strings.Contains(text, line) && strings.Contains(text, old) {
			lines[i] = strings.Replace(text, old, now, 1)
			return []byte(strings.Join(lines, ""))
		}
	}
	t.Fatalf("no line has %s and %s:\n%s", line, old, src)
	return nil
}

const twoCalls = `
do:
  - price: {call: http, with: {method: get, endpoint: https://shop.example/price, output: content}}
  - total: {set: {total: "${ .price * 2 }"}}
  - paid: {listen: {to: {one: {with: {type: com.shop.paid}}}}, output: {as: ".[0]"}}
  - done: {set: {paid: "${ .order }"}}
`

const twoCallsMocks = `
http: [{respond: {body: {price: 21}}}]
events: [{after: PT5S, id: e-1, type: com.shop.paid, source: /shop, data: {order: 7}}]
`

// A change in a recording is found in its place, and described from both sides.
func TestReplayFindsChanges(t *testing.T) {
	t.Parallel()
	src := recordedText(t, twoCalls, twoCallsMocks, nil)
	for name, c := range map[string]struct {
		line, old, now string
		want           string
	}{
		"computed output": {
			`task.completed`, `"total":42`, `"total":43`,
			`computed /do/1/total: task total ends with {"total":43} | task total ends with {"total":42} | .output.total 43 42 | doc:5`,
		},
		"answer": {
			`"record":"http"`, `\"price\":21`, `\"price\":22`,
			`computed /do/0/price: task price ends with {"price":21} | task price ends with {"price":22} | .output.price 21 22 | doc:4`,
		},
		"request": {
			`"record":"http"`, `.example/price"`, `.example/cost"`,
			`request /do/0/price: it called GET https://shop.example/cost | it calls GET https://shop.example/price |    | doc:4`,
		},
		"event": {
			`"record":"event"`, `"order":7`, `"order":8`,
			`arrival /do/2/paid: event com.shop.paid from /shop (id e-1) arrives with {"order":7} | event com.shop.paid from /shop (id e-1) arrives with {"order":8} (line 9) | .data.order 7 8 | doc:6`,
		},
		"task": {
			`/do/3/done`, `task.requested`, `timer.scheduled`,
			`unexpected /do/3/done: the wait of task done is set: 0s, until 0001-01-01T00:00:00Z | task done begins |    | doc:7`,
		},
		"workflow's output": {
			`workflow.completed`, `"paid":7`, `"paid":true`,
			`event : the workflow completes with {"paid":true} | the workflow completes with {"paid":7} | .output.paid true 7 | `,
		},
		"result": {
			`"record":"result"`, `"paid":7`, `"paid":8`,
			`result : the result has the output {"paid":8} | the output is {"paid":7} | .output.paid 8 7 | `,
		},
		"status": {
			`"record":"result"`, `completed`, `faulted`,
			`result : the result says that the execution is faulted | it is completed |    | `,
		},
		"input": {
			`"record":"header"`, `"input":{}`, `"input":{"a":1}`,
			`input : execution x of bench.bench starts with input {} | the header has the input {"a":1} | .a  1 | `,
		},
	} {
		v := replayed(t, mutate(t, src, c.line, c.old, c.now), recording.ReplayOptions{})
		if v.Agrees {
			t.Errorf("%s: nothing found", name)
			continue
		}
		d := v.Difference
		at := ""
		if d.RecordedAt != nil {
			at = fmt.Sprintf("doc:%d", d.RecordedAt.Line)
		}
		got := fmt.Sprintf("%s %s: %s | %s | %s %s %s | %s", d.What, d.Task, d.Recorded, d.Replayed, d.Path, d.RecordedValue, d.ReplayedValue, at)
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

const branches = `
do:
  - both:
      fork:
        branches:
          - left: {do: [{l1: {wait: PT1S}}, {l2: {set: {a: 1}}}]}
          - right: {do: [{r1: {wait: PT2S}}, {r2: {set: {b: 1}}}]}
`

// A different order of independent branches is a difference only if StrictOrder is set; a
// different order within a branch always is.
func TestReplayOrder(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(string(recordedText(t, branches, "{}", nil)), "\n")
	find := func(task, kind string) int {
		return slices.IndexFunc(lines, func(line string) bool {
			return strings.Contains(line, `"taskid":"`+task+`"`) && strings.Contains(line, kind)
		})
	}
	left, right := "/do/0/both/fork/branches/0/left", "/do/0/both/fork/branches/1/right"
	swapped := func(a, b, n int) []byte { // n lines each, the second directly after the first
		return []byte(strings.Join(slices.Concat(lines[:a], lines[b:b+n], lines[a:b], lines[b+n:]), ""))
	}
	independent := swapped(find(left, "task.requested"), find(right, "task.requested"), 3)
	v := replayed(t, independent, recording.ReplayOptions{})
	if !v.Agrees || v.Order != recording.OtherOrder || len(v.Notes) == 0 {
		t.Errorf("independent branches: %+v %+v", v, v.Difference)
	}
	v = replayed(t, independent, recording.ReplayOptions{StrictOrder: true})
	if v.Agrees || v.Difference.What != "order" {
		t.Errorf("strictly: %+v %+v", v, v.Difference)
	}
	v = replayed(t, swapped(find(left+"/do/0/l1", "timer.fired"), find(left+"/do/0/l1", "task.completed"), 1), recording.ReplayOptions{})
	if v.Agrees || v.Difference.Name != "l1" {
		t.Errorf("within a branch: %+v %+v", v, v.Difference)
	}
}

// A changed document agrees with a history as long as it gives the same results. The
// recorded results of a running execution stay, so it may be migrated if only those
// differ.
func TestReplayWorkflow(t *testing.T) {
	t.Parallel()
	src := recordedText(t, twoCalls, twoCallsMocks, nil)
	lines := bytes.SplitAfter(src, []byte("\n"))
	running := bytes.Join(lines[:8], nil) // it listens
	for name, c := range map[string]struct{ old, now, whole, soFar string }{
		"same":              {},
		"another version":   {old: "version: '1.0.0'", now: "version: '2.0.0'"},
		"behind the wait":   {old: "paid: \"${ .order }\"", now: "paid: true", whole: ".output.paid 7 true 7 7"},
		"before the wait":   {old: ".price * 2", now: ".price * 3", whole: ".output.total 42 63 5 5", soFar: ".output.total 42 63 5 5"},
		"another call":      {old: "get, endpoint", now: "post, endpoint", whole: "   4 4", soFar: "   4 4"},
		"a task more":       {old: "  - total", now: "  - check: {set: {price: 21}}\n  - total", whole: "   5 5", soFar: "   5 5"},
		"another event":     {old: "com.shop.paid", now: "com.shop.refunded", whole: "   6 6"},
		"a wait in between": {old: "  - done", now: "  - rest: {wait: P1D}\n  - done", whole: "   7 7"},
	} {
		now := documentOf(t, "new", []byte(strings.Replace(heading+twoCalls, c.old, c.now, 1)))
		for i, want := range []string{c.whole, c.soFar} {
			got := ""
			v := replayed(t, [][]byte{src, running}[i], recording.ReplayOptions{Workflow: now})
			if d := v.Difference; d != nil {
				got = fmt.Sprintf("%s %s %s %d %d", d.Path, d.RecordedValue, d.ReplayedValue, d.RecordedAt.Line, d.ReplayedAt.Line)
			}
			if got != want || v.Agrees != (want == "") {
				t.Errorf("%s: %q, want %q: %+v", name, got, want, v.Difference)
			}
			if m := v.Migration; (m != nil) != (i == 1) || m != nil && m.MayBe != (name != "a task more") {
				t.Errorf("%s: migration %+v", name, m)
			}
		}
	}
	other := documentOf(t, "other", []byte(strings.Replace(heading+twoCalls, "name: bench", "name: other", 1)))
	rec, err := recording.Read("run.jsonl", src, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recording.NewReplayer(recording.ReplayOptions{Workflow: other}).Replay(t.Context(), rec); err == nil || !strings.Contains(err.Error(), "it is of bench.bench, the document is bench.other") {
		t.Errorf("another workflow: %v", err)
	}
}

// A replay can stop anywhere and show the state.
func TestReplayStates(t *testing.T) {
	t.Parallel()
	src := recordedText(t, `
do:
  - loop:
      for: {in: "[1, 2]", each: n}
      do:
        - rest: {wait: PT10S, timeout: {after: PT1M}}
  - paid: {listen: {to: {one: {with: {type: com.shop.paid}}}}}
`, "{events: [{after: PT5M, type: com.shop.paid, source: /shop}]}", nil)
	after, err := dsl.ParseDuration("PT12S")
	if err != nil {
		t.Fatal(err)
	}
	v := replayed(t, src, recording.ReplayOptions{At: &recording.Moment{After: after}})
	s := v.States[0]
	if s.Status != "waiting" || len(s.Tasks) != 2 || len(s.Timers) != 2 || s.ElapsedMS != 12000 {
		t.Fatalf("%+v", s)
	}
	if got := s.Tasks[1]; got.Task != "/do/0/loop/do/0/rest#1" || string(s.Tasks[0].Variables["n"]) != "2" || got.At.Line != 7 {
		t.Errorf("%+v", got)
	}
	if got := s.Timers[1]; got.Kind != "wait" || got.DueIn != 8*time.Second {
		t.Errorf("%+v", got)
	}
	v = replayed(t, src, recording.ReplayOptions{At: &recording.Moment{Time: sim.Epoch().Add(time.Minute)}})
	if got := v.States[0].WaitsFor; len(got) != 1 || !strings.Contains(got[0], "com.shop.paid") {
		t.Errorf("%v", got)
	}
	v = replayed(t, src, recording.ReplayOptions{At: &recording.Moment{Event: 1}})
	if s := v.States[0]; s.Event != 1 || len(s.Tasks) != 2 {
		t.Errorf("%+v", s)
	}
}

// A recording contains no secret in any form, and replays both with secrets and without.
func TestReplaySecrets(t *testing.T) {
	t.Parallel()
	secrets := map[string]any{"key": `pa ss"w/ö&rd`, "db": map[string]any{"username": "joseph", "password": "hunter2<hunter2>"}}
	src := recordedText(t, `
use: {secrets: [key, db], authentications: {b: {basic: {use: db}}}}
do:
  - a: {set: {key: "${ $secrets.key }", b: "${ $secrets.key | @base64 }"}}
  - c: {call: http, with: {method: post, endpoint: {uri: "https://x.example/p", authentication: {use: b}}, query: {k: "${ $secrets.key }"}, body: {k: "${ $secrets.key }", p: "${ $secrets.db.password }"}, output: content}}
  - d: {set: {x: "${ . }", y: "${ \"Bearer \" + $secrets.key }"}}
`, `{http: [{respond: {body: {said: "hunter2<hunter2>"}}}]}`, secrets)
	for _, form := range []string{"pa ss", "pa%20ss", "pa+ss", "hunter2", "joseph", "cGEgc3Mid"} {
		if bytes.Contains(src, []byte(form)) {
			t.Errorf("the recording contains %s", form)
		}
	}
	for _, given := range []map[string]any{nil, secrets} {
		rec, err := recording.Read("run.jsonl", src, given, "")
		if err != nil {
			t.Fatal(err)
		}
		v, err := recording.NewReplayer(recording.ReplayOptions{Full: true, StrictOrder: true}).Replay(t.Context(), rec)
		if err != nil || !v.Agrees || given != nil && v.Order != recording.SameOrder {
			t.Errorf("%v: %v %+v %+v", given != nil, err, v, v.Difference)
		}
	}
}

// The history of a running engine does not say which secrets there were. A difference from it says that they
// can be given.
func TestReplaySecretsOfHistory(t *testing.T) {
	t.Parallel()
	src := recordedText(t, `
use: {secrets: [key]}
do: [{a: {set: {n: "${ $secrets.key | length }"}}}]
`, "", map[string]any{"key": "hunter2"})
	src = bytes.Replace(src, []byte(`,"secrets":{"key":"text"}`), nil, 1)
	v := replayed(t, src, recording.ReplayOptions{})
	if v.Agrees || !strings.Contains(v.Difference.Hint, "--secrets FILE") {
		t.Errorf("%+v, %+v, want a hint at the secrets", v, v.Difference)
	}
}

// An invalid recording is reported with its line.
func TestReadRecording(t *testing.T) {
	t.Parallel()
	src := string(recordedText(t, twoCalls, twoCallsMocks, nil))
	for name, c := range map[string]struct{ src, want string }{
		"empty":         {"\n", "x: empty, want a recording"},
		"a document":    {heading, "x:1: not a recording: want a header"},
		"another JSON":  {`{"a":1}`, "x:1: not a recording"},
		"newer":         {strings.Replace(src, `"format":2,"flunq":""`, `"format":3,"flunq":"9.1.0"`, 1), "x:1: format 3, written by flunq 9.1.0: this flunq reads formats up to 2"},
		"cut off":       {strings.Join(strings.SplitAfter(src, "\n")[:6], "") + `{"record":"his`, "x:7: the recording is cut off in the middle of this line"},
		"header alone":  {src[:strings.Index(src, "\n")+1], "x: the recording has no history"},
		"damaged":       {strings.Replace(src, "\n{", "\nnonsense{", 1), "x:2: not a line of a recording"},
		"changed":       {strings.Replace(src, "price * 2", "price * 3", 1), "x:1: the source of a document does not match its hash"},
		"two":           {src + src, "after the result"},
		"event's time":  {strings.Replace(src, `"time":"2026`, `"time":"x026`, 1), "x:2: not an event"},
		"event without": {strings.Replace(src, `,"executionid":"x"`, "", 1), "x:2: a history event without executionid"},
	} {
		if _, err := recording.Read("x", []byte(c.src), nil, "1.0.0"); err == nil || !strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// Lines of unknown kinds and a newer flunq version are noted.
func TestReplayNotes(t *testing.T) {
	t.Parallel()
	src := string(recordedText(t, twoCalls, twoCallsMocks, nil))
	src = strings.Replace(src, `"flunq":""`, `"flunq":"2.0.0"`, 1)
	src = strings.Replace(src, "\n", "\n{\"fault\":{\"kind\":\"drop\"}}\n{\"record\":\"fault\"}\n{\"record\":\"weather\"}\n", 1)
	v := replayed(t, []byte(src), recording.ReplayOptions{})
	want := []string{"2 faults were injected when this was recorded (the first in line 2)", `skipped a line of kind "weather" (line 4)`, "recorded by flunq 2.0.0, which is newer than this one (1.0.0)"}
	if !v.Agrees || !slices.Equal(v.Notes, want) {
		t.Errorf("%+v", v)
	}
}

// A run with faults replays, too.
func TestReplayFaults(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"order-saga", "checkout", "fan-out", "onboarding"} {
		for seed := range uint64(15) {
			cfg, _ := exampleOf(t, name)
			cfg.Seed, cfg.ID, cfg.Processes, cfg.Executors = seed, "example", 2, 2
			cfg.Plan = &sim.Plan{Kinds: sim.Faults(), Rate: 40}
			src := recorded(t, cfg)
			if v := replayed(t, src, recording.ReplayOptions{Full: true, StrictOrder: true}); !v.Agrees {
				t.Errorf("%s, seed %d: %+v, %+v", name, seed, v, v.Difference)
			}
		}
	}
}

// The recordings in testdata never change: they have format 1, and every later flunq must
// agree with them.
func TestReplayKept(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/recordings/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if v := replayed(t, src, recording.ReplayOptions{}); !v.Agrees {
			t.Errorf("%s: %+v", file, v.Difference)
		}
	}
}

const heading = "document: {dsl: '1.0.3', namespace: bench, name: bench, version: '1.0.0'}\n"

// exampleOf returns the configuration of an example.
func exampleOf(t *testing.T, name string) (sim.Config, workflows.Example) {
	t.Helper()
	e, err := workflows.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Definition: documentOf(t, name, e.Document), Input: e.Input, Seed: 1}
	for child, text := range e.With {
		cfg.With = append(cfg.With, documentOf(t, child, text))
	}
	if e.Mocks != nil {
		if cfg.Mocks, err = mock.Parse(name, e.Mocks); err != nil {
			t.Fatal(err)
		}
	}
	return cfg, e
}

func documentOf(t *testing.T, name string, text []byte) *dsl.Definition {
	t.Helper()
	def, _, err := dsl.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return def
}
