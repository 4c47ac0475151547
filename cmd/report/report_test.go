package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/recording"
	"flunq.io/flunq/workflows"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Equal runs produce equal bytes, and what the page draws matches the golden file.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"order-saga", "reminder", "webhook", "onboarding", "suppliers"} {
		first, second := page(t, config(t, name)), page(t, config(t, name))
		if !bytes.Equal(first, second) {
			t.Errorf("%s: two runs produced different pages", name)
		}
		got := structure(t, first)
		file := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs (-update rewrites it):\n%s", file, got)
		}
	}
}

// No data becomes markup of the page, and the page refers to nothing else.
func TestHostile(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, `document: {dsl: '1.0.3', namespace: test, name: hostile, version: '1.0.0'}
do:
  - "</script><img src=x onerror=alert(1)>":
      set: {a: "</script><script>alert(1)</script>", "__proto__": {x: 1}, b: "\u202eabc\u0000<!--", c: "]]>\u2028"}
  - '"><b onclick=alert(1)>/x#y@z':
      call: http
      with: {method: post, endpoint: "https://a.example/?q=<script>", body: "${ . }"}
  - boom: {raise: {error: {type: "https://x.example/<script>", status: 500, title: "<b>bold</b>", detail: "</script>\u0007"}}}
`)
	cfg.Mocks = mocks(t, `http: [{match: {method: POST}, respond: {headers: {x-evil: "<script>"}, body: "</script>"}}]`)
	got := string(page(t, cfg))
	if n := strings.Count(got, "<script"); n != 2 {
		t.Errorf("%d scripts, want the page's own and its data", n)
	}
	if n := strings.Count(got, "</script"); n != 2 {
		t.Errorf("%d ends of scripts", n)
	}
	for _, bad := range []string{"<img", "<b onclick", "<b>bold", "\u202e", "\x00", "\x07"} {
		if strings.Contains(got, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if found := regexp.MustCompile(`(?:src|href)="?(?:https?:)?//|@import|url\((?:[^#)])`).FindString(got); found != "" {
		t.Errorf("the page refers to something outside: %s", found)
	}
}

// filled returns a report whose fields all contain a text.
func filled(t *testing.T, text string) *report.Report {
	t.Helper()
	r := report.NewRecording(text)
	if _, err := recording.Record(t.Context(), config(t, "reminder"), r); err != nil {
		t.Fatal(err)
	}
	r.Notes = []string{text}
	r.Difference = &report.Difference{
		Where: text, Recorded: text, Replayed: text, Now: text, Path: text, RecordedValue: text, ReplayedValue: text, Hint: text,
		Frames: []report.Frame{{Place: text, Lines: []report.FrameLine{{Number: 1, Text: text, Marked: true}}}},
	}
	verdict := report.Verdict{Text: text, Rating: report.Bad}
	return &report.Report{
		Verb: text, Version: text, Command: text, Verdict: verdict, Facts: []report.Fact{{Name: text, Value: text}}, Notes: []string{text},
		Runs: []*report.Recording{r, r}, Files: []report.File{{Name: text, Verdict: verdict, Text: text}}, Hints: []string{text},
		Findings: []*report.Finding{{
			Heading: text, Rating: report.Bad, Rule: text, Detail: text, Counts: text, Meaning: text, Story: []report.Line{{Text: text, Fault: true}},
			Sides:  []report.Side{{Head: text, Steps: []report.Step{{At: text, Text: text}, {At: text, Text: text, Marked: true}}}},
			Differ: []report.Change{{Path: text, Usual: text, Here: text}}, Repeat: text, Runs: []int{0, 1},
		}},
	}
}

// A field stays text, whatever it contains.
func TestHostileFields(t *testing.T) {
	t.Parallel()
	const bad = `</script><img src=x onerror="alert('1')">&amp;`
	rep := filled(t, bad)
	var out bytes.Buffer
	if err := rep.Write(&out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if strings.Contains(got, "<img") || strings.Count(got, "</script") != 2 {
		t.Error("a field became markup")
	}
	// The page has 32 of them, and the part of each run 13.
	if n, want := strings.Count(got, html.EscapeString(bad)), 32+2*13; n != want {
		t.Errorf("the page shows %d fields, want %d", n, want)
	}
}

// A page can be written for binary data, invalid lines and truncated recordings.
func TestBroken(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	if _, err := recording.Record(t.Context(), config(t, "webhook"), &whole); err != nil {
		t.Fatal(err)
	}
	for _, src := range [][]byte{nil, []byte("{"), []byte("\xff\xfe\n"), []byte(`{"record":"history","event":{"time":"x"}}`), []byte("null\n[]\n")} {
		write(t, recordingOf(t, src))
	}
	for i := 0; i < whole.Len(); i += 1 + whole.Len()/60 {
		write(t, recordingOf(t, whole.Bytes()[:i]))
		write(t, recordingOf(t, append(bytes.Clone(whole.Bytes()[:i]), 0xff, 0, '<', '\n')))
	}
}

// The page of a run of ten thousand tasks has a limited number of rows and says what it
// omits.
func TestBig(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, `document: {dsl: '1.0.3', namespace: test, name: big, version: '1.0.0'}
do:
  - all:
      for: {each: n, in: "${ [range(10000)] }"}
      do:
        - keep: {set: {n: "${ $n }", text: "${ \"x\" * 300 }"}}
  - huge: {set: {huge: "${ [range(60000)] }"}}
`)
	got := page(t, cfg)
	if n := len(got); n > 3<<20 {
		t.Errorf("%d bytes", n)
	}
	if n := len(dataOf(t, got)[0].Rows); n > 400 {
		t.Errorf("%d rows", n)
	}
	for _, described := range []string{"9,900 more runs", `"omitted":"9,900 runs"`, ` more events"`, "values are truncated"} {
		if !bytes.Contains(got, []byte(described)) {
			t.Errorf("the page does not contain: %s", described)
		}
	}
}

// A page contains no secrets in any encoding.
func TestSecrets(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, `document: {dsl: '1.0.3', namespace: test, name: secret, version: '1.0.0'}
use: {secrets: [db]}
do:
  - tell: {set: {plain: "${ $secrets.db.password }", coded: "${ $secrets.db.password | @base64 }"}}
  - ask:
      call: http
      with: {method: post, endpoint: "https://a.example/", body: "${ . }"}
`)
	cfg.Mocks = mocks(t, `http: [{match: {method: POST}, respond: {body: {}}}]`)
	cfg.Secrets = map[string]any{"db": map[string]any{"password": "sw0rd+fish"}}
	got := page(t, cfg)
	for _, bad := range []string{"sw0rd+fish", "c3cwcmQrZmlzaA", "\ue000"} {
		if bytes.Contains(got, []byte(bad)) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !bytes.Contains(got, []byte(`***`)) {
		t.Error("nothing replaces the secret")
	}
}

// The page of every example shows the input of each run of a task.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		got := page(t, config(t, name))
		if bytes.Contains(got, []byte("The rest of this recording could not be read")) {
			t.Errorf("%s: the recording could not be read", name)
		}
		for _, text := range dataOf(t, got)[0].Rows {
			var row struct {
				Task  string `json:"task"`
				State string `json:"state"`
				To    string `json:"to"`
				Input int    `json:"input"`
			}
			if err := json.Unmarshal(text, &row); err != nil {
				t.Fatal(err)
			}
			if row.Task != "" && row.State != "skipped" && row.Input == 0 && row.To != "" {
				t.Errorf("%s: the input of %s is unknown", name, row.Task)
			}
		}
	}
}

type pageData struct {
	Texts []string          `json:"texts"`
	Axis  json.RawMessage   `json:"axis"`
	Rows  []json.RawMessage `json:"rows"`
	Docs  []struct {
		Tasks []json.RawMessage `json:"tasks"`
		Nodes []json.RawMessage `json:"nodes"`
		Edges []json.RawMessage `json:"edges"`
	} `json:"documents"`
	Events []json.RawMessage `json:"events"`
}

func dataOf(t *testing.T, page []byte) []pageData {
	t.Helper()
	_, rest, _ := bytes.Cut(page, []byte(`id="data">`))
	text, _, _ := bytes.Cut(rest, []byte("</script>"))
	var data []pageData
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	return data
}

// structure returns what the page draws, one thing per line.
func structure(t *testing.T, page []byte) string {
	t.Helper()
	var out strings.Builder
	for _, run := range dataOf(t, page) {
		lists := [][]json.RawMessage{{run.Axis}, run.Rows}
		for _, doc := range run.Docs {
			lists = append(lists, doc.Tasks, doc.Nodes, doc.Edges)
		}
		for _, list := range append(lists, run.Events) {
			for _, one := range list {
				fmt.Fprintf(&out, "%s\n", one)
			}
		}
	}
	return out.String()
}

func config(t *testing.T, name string) sim.Config {
	t.Helper()
	e, err := workflows.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := parsed(t, string(e.Document))
	cfg.Input = e.Input
	for file, text := range e.With {
		def, _, err := dsl.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.With = append(cfg.With, def)
	}
	if e.Mocks != nil {
		cfg.Mocks = mocks(t, string(e.Mocks))
	}
	return cfg
}

func parsed(t *testing.T, text string) sim.Config {
	t.Helper()
	def, _, err := dsl.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return sim.Config{Definition: def, Seed: 1, Version: "devel"}
}

func mocks(t *testing.T, text string) *mock.Set {
	t.Helper()
	m, err := mock.Parse("mocks.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func recordingOf(t *testing.T, src []byte) *report.Recording {
	t.Helper()
	r := report.NewRecording("")
	if _, err := r.Write(src); err != nil {
		t.Fatal(err)
	}
	return r
}

// page returns the report of a run.
func page(t *testing.T, cfg sim.Config) []byte {
	t.Helper()
	r := report.NewRecording("")
	if _, err := recording.Record(t.Context(), cfg, r); err != nil {
		t.Fatal(err)
	}
	return write(t, r)
}

func write(t *testing.T, runs ...*report.Recording) []byte {
	t.Helper()
	var out bytes.Buffer
	rep := &report.Report{Verb: "run", Version: "devel", Command: "flunq run x.yaml", Verdict: runs[0].Ended(), Runs: runs}
	if err := rep.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
