package editor_test

import (
	"slices"
	"strings"
	"testing"

	"flunq.io/flunq/cmd/editor"
)

// Completion at the | of a document that is being typed.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, text, want string }{
		{"workflow", "|", "document input use do timeout output schedule evaluate"},
		{"workflow", head + "do:\n- a:\n    ca|", "call set wait switch for do fork try raise emit listen run inject if input output export timeout then metadata"},
		{"workflow", head + "do:\n- a:\n    |\n    call: http\n", "with if input output export timeout then metadata"},
		{"workflow", head + "do:\n- a:\n    call: http\n    with:\n      |\n    then: end\n", "method endpoint headers body query output redirect"},
		{"workflow", head + "do:\n- a:\n    call: http\n    with: {method: get, |}\n", "endpoint headers body query output redirect"},
		{"workflow", head + "do:\n- a:\n    call: http\n    with: {| method: get}\n", "endpoint headers body query output redirect"},
		{"workflow", head + "do:\n- a:\n    call: http\n    with: {method: |\n", "get post put patch delete head options"},
		{"workflow", head + "do:\n- a:\n    call: openapi\n    with:\n      document: {endpoint: x}\n      o|", "operationId parameters authentication output redirect"},
		{"workflow", head + "do:\n- a: {wait: P1D, then: |}\n- b:\n    do: [{c: {wait: P1D}}]\n", "a b continue exit end"},
		{"workflow", head + "do:\n- a: {wait: P1D, then: |}\n- b: {wait: P1D}\n- a: {wait: P1D}\n", "a b continue exit end"},
		{"workflow", head + "do:\n- b:\n    do:\n    - c:\n        switch:\n        - d:\n            then: |\n    - e: {wait: P1D}\n", "c e continue exit end"},
		{"workflow", "use: {timeouts: {short: {after: PT1S}}}\ndo:\n- a:\n    timeout: |", "short"},
		{"workflow", "use: {retries: {r: {}}}\ndo:\n- a:\n    try: []\n    catch:\n      retry: |", "r"},
		{"workflow", head + "do:\n- a:\n    fork:\n      branches: []\n      compete: |", "true false"},
		{"workflow", head + "do:\n- a:\n    for: {each: pet, in: .x}\n    do:\n    - b: {set: {c: '${ $p|'}}", "$authorization $context $index $input $output $pet $runtime $secrets $task $workflow"},
		{"workflow", head + "do:\n- a:\n    try: []\n    catch:\n      when: $e|", "$authorization $context $error $input $output $runtime $secrets $task $workflow"},
		{"workflow", head + "do:\n- a: {if: .|", ""},
		{"workflow", head + "do:\n- a: {wait: P1D, export: {as: $c|", "$authorization $context $input $output $runtime $secrets $task $workflow"},
		{"workflow", head + "do:\n- a:\n    set: |\n", ""},
		{"workflow", head + "do: [\n  {a: {wait: P1D}},\n  {b: {listen: {to: {one: {with: {|", "type source data subject id time datacontenttype dataschema"},
		{"mocks", "http:\n- match: {method: GET}\n  |", "respond keep"},
		{"mocks", "http:\n- respond:\n  - status: 503\n    |", "headers body latency error"},
		{"test", "tests:\n- name: x\n  expect:\n    status: |", "completed faulted cancelled waiting"},
		{"test", "tests:\n- name: x\n  mocks: {events: [{a|", "after type source data subject id time datacontenttype dataschema specversion"},
	} {
		got := strings.Join(editor.Complete(c.kind, c.text), " ")
		if got != c.want {
			t.Errorf("%s\ngives %s\nwant %s", c.text, got, c.want)
		}
	}
	functions := editor.Complete("workflow", head+"do:\n- a: {if: '.b | len|'}")
	if !slices.Contains(functions, "length") || !slices.Contains(functions, "$context") {
		t.Errorf("in an expression: %v", functions)
	}
}

// A completion replaces the word that is being typed, in any alphabet.
func TestAcceptedCompletion(t *testing.T) {
	t.Parallel()
	const functions = head + "use: {functions: {prüfen: {call: http}}}\ndo:\n- größe: {set: {x: '😀'}, then: end}\n- a: {"
	for before, after := range map[string]string{"call: pr|}": "call: prüfen}", "call: prü|}": "call: prüfen}", "wait: P1D, then: größ|": "wait: P1D, then: größe"} {
		if got := editor.Accept("workflow", functions+before); got != functions+after {
			t.Errorf("%s gives\n%s", before, got)
		}
	}
}

// No request panics, wherever a document and the cursor end.
func TestUnfinishedDocuments(t *testing.T) {
	t.Parallel()
	for _, nested := range []string{"- ", "[", "{a: "} {
		editor.Ask("workflow", "do: "+strings.Repeat(nested, 20_000), 0)
	}
	for file, text := range allYAML(t) {
		for cut := len(file) % 281; cut <= len(text); cut += 281 {
			editor.Ask("workflow", string(text[:cut]), strings.Count(string(text[:cut]), "\n"))
		}
	}
}
