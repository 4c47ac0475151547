package recording_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/recording"
)

// An exported history equals a recording of the run itself, except that it has no
// exchanges.
func TestExport(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("wait.yaml", []byte(`
document: {dsl: '1.0.3', namespace: test, name: paid, version: '1.0.0'}
do:
  - paid: {listen: {to: {one: {with: {type: com.shop.paid}}}}, output: {as: ".[0]"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	mocks, err := mock.Parse("mocks.yaml", []byte(`{events: [{after: PT5S, id: e-1, type: com.shop.paid, source: /shop, data: {order: 7}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var history []event.Event
	cfg := sim.Config{Definition: def, Mocks: mocks, ID: "x", Observe: func(events []event.Event) { history = append(history, events...) }}
	var recorded bytes.Buffer
	result, err := recording.Record(t.Context(), cfg, &recorded)
	if err != nil {
		t.Fatal(err)
	}
	var exported bytes.Buffer
	x := recording.NewExport(&exported, recording.Exported{Definition: def, Input: json.RawMessage("{}"), ID: "x", Tenant: "default", Start: sim.Epoch()})
	for i := range history { // in pieces
		if err := x.Add(history[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.End(result.Status, result.Output, result.Error); err != nil {
		t.Fatal(err)
	}
	want, got := lines(t, recorded.Bytes()), lines(t, exported.Bytes())
	if got[0]["results"] != "history" || got[0]["input"] == nil || want[0]["results"] != nil {
		t.Errorf("header %v", got[0])
	}
	delete(got[0], "results")
	want[0]["seed"] = got[0]["seed"]
	arrived := 0
	for _, line := range got {
		if line["record"] == "event" {
			arrived++
		}
	}
	if arrived != 1 {
		t.Errorf("%d events from outside, want 1", arrived)
	}
	for _, kind := range []string{"header", "history", "result"} {
		if w, g := only(want, kind), only(got, kind); w != g {
			t.Errorf("%s:\n%s\nwant\n%s", kind, g, w)
		}
	}
}

func lines(t *testing.T, text []byte) (out []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// only returns the JSON of the lines of one kind.
func only(lines []map[string]any, kind string) string {
	var out []map[string]any
	for _, line := range lines {
		if line["record"] == kind {
			out = append(out, line)
		}
	}
	return string(event.Encode(out))
}

// Each event of an exported history is read back byte for byte, whatever its data is, and
// contains no secret: not even one of digits that is part of a number.
func TestExportKeepsBytes(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("x.yaml", []byte("document: {dsl: '1.0.3', namespace: test, name: x, version: '1.0.0'}\ndo: [{a: {set: {b: 1}}}]"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]any{"pin": "2345", "word": "true", "quoted": `pa"ss`}
	var history []event.Event
	for _, data := range []string{
		`{"a":1.50,"big":12345678901234567890123,"ok":true}`, `{"s":"pa\"ss","t":"{\"u\":\"pa\\\"ss\"}"}`, "{ \"a\": 1,\n \"a\": 2 }",
		`no JSON, pa"ss`, "\xff pa\"ss 2345", `"2345"`, "",
	} {
		history = append(history, event.Event{ID: "x/1", Type: "com.shop.paid", Execution: "x", Data: json.RawMessage(data)})
	}
	var out bytes.Buffer
	x := recording.NewExport(&out, recording.Exported{Definition: def, Input: json.RawMessage("{}"), ID: "x", Start: sim.Epoch(), Secrets: secrets})
	if err := x.Add(history); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines(t, out.Bytes()) {
		text := string(event.Encode(line))
		if raw, ok := line["base64"].(string); ok {
			plain, err := base64.StdEncoding.DecodeString(raw)
			text += string(plain)
			if err != nil {
				t.Error(err)
			}
		}
		if strings.Contains(text, `pa"ss`) || strings.Contains(text, "12345678") || strings.Contains(text, `"2345"`) {
			t.Error(text)
		}
	}
	rec, err := recording.Read("x.jsonl", out.Bytes(), secrets, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range rec.Histories() {
		if string(got.Data) != string(history[i].Data) {
			t.Errorf("%q was written, %q read", history[i].Data, got.Data)
		}
	}
	if _, err := recording.Read("x.jsonl", out.Bytes(), nil, ""); err != nil {
		t.Error("without the secrets:", err)
	}
}
