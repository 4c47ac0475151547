package search

import (
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

// A document that reads something and writes it back gets the hint to run two executions,
// unless the service can detect a concurrent change.
func TestTogetherHint(t *testing.T) {
	t.Parallel()
	const head = "document: {dsl: '1.0.3', namespace: a, name: b, version: '1.0.0'}\ndo:\n" +
		"  - read: {call: http, with: {method: get, endpoint: 'https://a.example/stock'}}\n"
	for put, want := range map[string]int{
		"{method: put, endpoint: 'https://a.example/stock', body: '${ . }'}":                                 1,
		"{method: patch, endpoint: {uri: 'https://a.example/stock'}, body: '${ . }'}":                        1,
		"{method: post, endpoint: 'https://a.example/stock', body: '${ . }'}":                                0,
		"{method: put, endpoint: 'https://a.example/other', body: '${ . }'}":                                 0,
		"{method: put, endpoint: 'https://a.example/stock', headers: {if-match: '${ .v }'}, body: '${ . }'}": 0,
	} {
		def, _, err := dsl.Parse("a.yaml", []byte(head+"  - write: {call: http, with: "+put+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		h := &hints{Search: &Search{}}
		h.Config = sim.Config{Definition: def, Executions: 1}
		if got := h.togetherHint(); len(got) != want {
			t.Errorf("%s: %d hints, want %d", put, len(got), want)
		}
		h.Config.Executions = 2
		if got := h.togetherHint(); len(got) != 0 {
			t.Errorf("%s: a hint with two executions", put)
		}
	}
}
