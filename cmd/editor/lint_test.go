package editor_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"flunq.io/flunq/cmd/editor"
	"flunq.io/flunq/engine/yaml"
)

const head = "document: {dsl: '1.0.3', namespace: demo, name: a, version: '0.1.0'}\n"

// broken returns, for each rule, a document that breaks only that rule.
func broken() map[string]string {
	get := "call: http, with: {method: get, endpoint: 'https://a.example/x'}"
	return map[string]string{
		"text":               "do: [{a: {set: {b: .c}}}]",
		"assignment":         "do: [{a: {if: .b = 1, set: {b: 1}}}]",
		"constant-condition": "do: [{a: {if: .b == 1 or 2, set: {b: 1}}}]",
		"jq-meaning":         "do: [{a: {set: {b: '${ .items.length }'}}}]",
		"unreachable":        "do: [{a: {set: {b: 1}, then: end}}, {c: {set: {b: 1}}}]",
		"endless":            "do: [{a: {wait: PT1S, then: a}}]",
		"retry-limit":        "do: [{a: {try: [{b: {" + get + "}}], catch: {retry: {delay: PT1S}}}}]",
		"jitter":             "do: [{a: {try: [{b: {" + get + "}}], catch: {retry: {limit: {attempt: {count: 1}}, jitter: {from: PT2S, to: PT1S}}}}}]",
		"http-method":        "do: [{a: {call: http, with: {method: fetch, endpoint: 'https://a.example'}}}]",
		"endpoint":           "do: [{a: {call: http, with: {method: get, endpoint: /pets}}}]",
		"uri-template":       "do: [{a: {call: http, with: {method: get, endpoint: 'https://a.example/{}'}}}]",
		"error-type":         "do: [{a: {raise: {error: {type: 'https://serverlessworkflow.io/spec/1.0.0/errors/timeot', status: 408}}}}]",
		"json-schema":        "input: {schema: {document: {type: object, propertys: {}}}}\ndo: [{a: {wait: PT1S}}]",
		"unknown-key":        "colour: red\ndo: [{a: {wait: PT1S}}]",
		"dsl-version":        "do: [{a: {wait: PT1S}}]",
		"unsupported":        "do: [{a: {run: {shell: {command: ls}}}}]",
		"skipped-then":       "do: [{a: {if: .b, wait: PT1S, then: end}}, {c: {wait: PT1S}}]",
		"exit-in-loop":       "do: [{a: {for: {in: .b}, do: [{c: {wait: PT1S, then: exit}}]}}]",
		"branch-exports":     "do: [{a: {fork: {branches: [{b: {wait: PT1S, export: {as: .}}}, {c: {wait: PT1S, export: {as: .}}}]}}}]",
		"case-name":          "do: [{a: {switch: [{b: {when: .c, then: end}}, {b: {then: end}}]}}]",
		"go-duration":        "do: [{a: {wait: 1h30m}}]",
		"event-attribute":    "do: [{a: {emit: {event: {with: {type: b, attempt: 2}}}}}]",
		"listen-timeout":     "do: [{a: {listen: {to: {one: {with: {type: b}}}}}}]",
		"uri-variable":       "do: [{a: {set: {name: 1}}}, {b: {call: http, with: {method: get, endpoint: 'https://a.example/{nam}'}}}]",
		"boolean":            "do: [{a: {set: {country: NO, sure: 'yes', off: true}}}]",
		"unused":             "use: {timeouts: {short: {after: PT1S}}}\ndo: [{a: {wait: PT1S}}]",
		"task-name":          "do: [{end: {wait: PT1S}}]",
		"ignore":             "do: [{a: {wait: PT1S}}] # flunq-lint: ignore unusd",

		"call-timeout":   "do: [{a: {" + get + "}}]",
		"switch-default": "do: [{a: {switch: [{b: {when: .c, then: end}}]}}]",
		"retry-and-do":   "timeout: {after: PT1M}\ndo: [{a: {try: [{b: {" + get + "}}], catch: {retry: {limit: {attempt: {count: 1}}}, do: [{c: {wait: PT1S}}]}}}]",
		"nested-end":     "do: [{a: {do: [{b: {wait: PT1S, then: end}}]}}]",
		"emit-output":    "do: [{a: {emit: {event: {with: {type: b}}}}}]",
		"fork-output":    "do: [{a: {fork: {branches: [{b: {wait: PT1S}}]}}}]",
		"event-pattern":  "do: [{a: {listen: {to: {one: {with: {type: 'b.*'}}}}, timeout: {after: P1D}}}]",
		"variable-name":  "do: [{a: {for: {each: input, in: '[1]'}, do: [{b: {set: {c: 1}}}]}}]",
		"read-raw":       "do: [{a: {listen: {to: {one: {with: {type: b}}}, read: raw}, timeout: {after: P1D}}}]",
	}
}

func lint(t *testing.T, name, source string, portable bool) []yaml.Warning {
	t.Helper()
	found, err := editor.Lint(name, []byte(source), portable)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, source)
	}
	return found
}

// Each rule finds its example and nothing else, and a comment silences it.
func TestRules(t *testing.T) {
	t.Parallel()
	examples := broken()
	if got, want := slices.Sorted(maps.Keys(examples)), editor.RuleNames(); !slices.Equal(got, want) {
		t.Errorf("examples of the rules %v, want %v", got, want)
	}
	for rule, body := range examples {
		source := head + body
		if rule == "dsl-version" {
			source = strings.Replace(source, "1.0.3", "1.9.0", 1)
		}
		found := lint(t, rule, source, editor.Portable(rule))
		if len(found) != 1 || found[0].Rule != rule || found[0].Suggestion == "" && rule != "dsl-version" {
			t.Errorf("%s: found %+v", rule, found)
		}
		if rule == "ignore" {
			continue
		}
		if found := lint(t, rule, "# flunq-lint: ignore "+rule+"\n"+source, true); slices.ContainsFunc(found, func(w yaml.Warning) bool { return w.Rule == rule }) {
			t.Errorf("%s: found despite the comment: %v", rule, found)
		}
	}
}

// A comment applies to its line, or to the next one, and to the lines indented below it.
func TestIgnored(t *testing.T) {
	t.Parallel()
	const source = head + `do:
  - a:  # flunq-lint: ignore text, endpoint
      set:
        b: .c
  - d:
      set:
        e: .f  # flunq-lint: ignore text
        # flunq-lint: ignore text
        g: .h
        i: .j
`
	var lines []int
	for _, w := range lint(t, "a.yaml", source, false) {
		lines = append(lines, w.Line)
	}
	if !slices.Equal(lines, []int{11}) {
		t.Errorf("findings on lines %v, want 11", lines)
	}
}

// Tasks that obviously end, or obviously are not meant to, have no findings.
func TestNoFindings(t *testing.T) {
	t.Parallel()
	const listen = "{listen: {to: {one: {with: {type: x}}}}}"
	for _, body := range []string{
		"timeout: {after: P1D}\ndo: [{a: " + listen + "}]",
		"do: [{a: {do: [{b: " + listen + "}], timeout: {after: P1D}}}]",
		"do: [{a: {fork: {compete: true, branches: [{b: " + listen + "}, {c: {wait: P1D}}]}}}]",
		"do: [{a: {try: [{b: " + listen + "}], catch: {retry: {limit: {attempt: {count: 2, duration: P1D}}}}}}]",
		"do: [{a: {try: [{b: " + listen + "}], catch: {retry: {limit: {duration: P1D}}}}}]",
		"do: [{a: {emit: {event: {with: {type: x, flunqafter: P1D}}}}}, {b: " + listen + "}]",
		"do: [{a: {listen: {to: {any: [], until: '${ false }'}}}}]",
		"use: {timeouts: {t: {after: P1D}}}\ndo: [{a: {listen: {to: {one: {with: {type: x}}}}, timeout: t}}]",
		"use: {secrets: [s]}\ndo: [{a: {set: {b: '${ $secrets[.name] }'}}}]",
		"use: {secrets: [s]}\ndo: [{a: {set: {b: '${ $secrets.s }'}}}]",
		"do: [{a: {set: {id: 1}}}, {b: {call: http, with: {method: get, endpoint: 'https://a.example/{id}'}}}]",
		"do: [{a: {set: {x: 1}}}, {b: {call: http, with: {method: get, endpoint: 'https://a.example/{id}'}}}, {c: {switch: [{d: {when: .e, then: b}}, {f: {then: end}}]}}]",
	} {
		if found := lint(t, body, head+body, false); len(found) > 0 {
			t.Errorf("%s\n%v", body, found)
		}
	}
}

// The workflows that come with flunq have no findings. The findings in the official examples were
// reviewed one by one, and are correct.
func TestExamplesHaveNoFalseFindings(t *testing.T) {
	t.Parallel()
	for file, text := range ownDocuments(t) {
		if found := lint(t, file, string(text), false); len(found) > 0 {
			t.Errorf("%v", found)
		}
	}
	count := map[string]int{}
	for file, text := range officialDocuments(t) {
		if !strings.Contains(file, "/main-") {
			continue
		}
		for _, w := range lint(t, file, string(text), false) {
			count[w.Rule]++
		}
	}
	want := map[string]int{"listen-timeout": 10, "text": 5, "endpoint": 1, "skipped-then": 1, "unused": 1, "unsupported": 59}
	if !maps.Equal(count, want) {
		t.Errorf("findings in the official examples: %v, looked at were %v", count, want)
	}
}
