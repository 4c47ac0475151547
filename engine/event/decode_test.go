package event_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
)

func TestDecodeStrictly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"kind": "dup"} `:              "",
		`{"kind": "dup"}}`:              "something follows the JSON value",
		`{"kind": "dup"} {}`:            "something follows the JSON value",
		`{"sort": "dup"}`:               `unknown field "sort"`,
		`{"kind": 7}`:                   "kind is number, want string",
		`{"headers": {"a": 1}}`:         "headers is number, want string",
		`{"headers": []}`:               "headers is array, want object",
		`{"at": "soon"}`:                `"soon" is not a time, want one such as 2026-02-01T09:00:00Z`,
		`[1]`:                           "it is array, want object",
		`{"list": {}}`:                  "list is object, want array",
		`{"list": [{"n": 1.5}]}`:        "list.n is number 1.5, want integer",
		`kind`:                          "not JSON: invalid character 'k' looking for beginning of value",
		`{"kind": "dup", "headers": {}`: "not JSON: it ends too early",
		"":                              "not JSON: it ends too early",
		strings.Repeat("[", 20_000):     "JSON nested deeper than 10,000 levels",
		`{"at": 7}`:                     "want a time such as 2026-02-01T09:00:00Z",
		`{"bytes": 7}`:                  "bytes is number, want string",
		`{"good": "yes"}`:               "good is string, want boolean",
	} {
		var into struct {
			Kind    string            `json:"kind"`
			Headers map[string]string `json:"headers"`
			At      *time.Time        `json:"at"`
			Bytes   []byte            `json:"bytes"`
			Good    bool              `json:"good"`
			List    []struct {
				N int `json:"n"`
			} `json:"list"`
		}
		got := ""
		if err := event.DecodeStrictly([]byte(text), &into); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40s: %q, want %q", text, got, want)
		}
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	if err := event.Readable(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	var into struct {
		Output string `json:"output"`
	}
	const want = "output is array, want string"
	if err := event.Readable(json.Unmarshal([]byte(`{"output": []}`), &into)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
