package cmd_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// The schema of the Helm chart lists all settings but those that the chart itself chooses.
// go test ./cmd -run TestChartHasAllSettings -update writes it.
func TestChartHasAllSettings(t *testing.T) {
	t.Parallel()
	list, _, code := flunq(t, nil, "config", "show", "-o", "json")
	if code != 0 {
		t.Fatalf("code %d", code)
	}
	var settings []struct {
		Name string `json:"name"`
		Help string `json:"help"`
	}
	if err := json.Unmarshal([]byte(list), &settings); err != nil {
		t.Fatal(err)
	}
	properties := map[string]any{}
	for _, s := range settings {
		if s.Help != "" { // the others select an engine
			properties[s.Name] = map[string]any{"description": s.Help, "type": []string{"string", "number", "boolean"}}
		}
	}
	for _, name := range []string{"HTTP_ADDRESS", "SCHEDULER_GRPC", "SCHEDULER_ENABLED"} {
		if properties[name] == nil {
			t.Errorf("%s: no setting of flunq", name)
		}
		delete(properties, name)
	}
	const file = "../.release/chart/values.schema.json"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	schema["properties"].(map[string]any)["settings"].(map[string]any)["properties"] = properties
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		text = want.Bytes()
	}
	if !bytes.Equal(text, want.Bytes()) {
		t.Errorf("%s is not up to date: run this test with -update", file)
	}
}
