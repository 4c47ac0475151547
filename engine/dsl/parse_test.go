package dsl_test

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/dsl"
)

const header = "document: {dsl: '1.0.3', namespace: shop, name: order, version: '1.0.0'}\n"

func parse(t *testing.T, body string) *dsl.Definition {
	t.Helper()
	def, _, err := dsl.Parse("order.yaml", []byte(header+body))
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// Every task of a document has its JSON pointer, in document order.
func TestReferences(t *testing.T) {
	t.Parallel()
	def := parse(t, `
use: {functions: {f/g: {do: [{x: {set: {a: 1}}}]}}}
do:
  - a: {do: [{b~c: {set: {a: 1}}}]}
  - f: {fork: {branches: [{l: {set: {a: 1}}}, {r: {wait: PT1S}}]}}
  - t: {try: [{x: {set: {a: 1}}}], catch: {do: [{y: {set: {a: 1}}}]}}
  - l: {listen: {to: {any: []}}, foreach: {do: [{y: {set: {a: $item}}}]}}
  - e: {for: {in: .a}, do: [{y: {call: f/g}}]}
`)
	var refs []string
	for ref, task := range def.Tasks() {
		refs = append(refs, ref)
		if def.Task(ref) != task || task.Ref != ref {
			t.Errorf("%s is %+v", ref, task)
		}
	}
	want := strings.Fields(`/use/functions/f~1g /use/functions/f~1g/do/0/x
		/do/0/a /do/0/a/do/0/b~0c /do/1/f /do/1/f/fork/branches/0/l /do/1/f/fork/branches/1/r
		/do/2/t /do/2/t/try/0/x /do/2/t/catch/do/0/y /do/3/l /do/3/l/foreach/do/0/y /do/4/e /do/4/e/do/0/y`)
	if diff := cmp.Diff(want, refs); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if call := def.Task("/do/4/e/do/0/y").Call; call.Function != def.Use.Functions["f/g"] || call.Function.Name != "f/g" {
		t.Errorf("call is %+v", call)
	}
	if def.ID() != "shop.order" {
		t.Errorf("ID is %s", def.ID())
	}
}

// A catalog may use an authentication, wherever that is written.
func TestCatalogAuthentication(t *testing.T) {
	t.Parallel()
	parse(t, `
use:
  catalogs: {shared: {endpoint: {uri: 'https://example.com', authentication: {use: us}}}}
  authentications: {us: {basic: {username: a, password: b}}}
do: [{x: {set: {a: 1}}}]
`)
}

// Data has the types that users of JSON expect.
func TestScalars(t *testing.T) {
	t.Parallel()
	def := parse(t, `
do:
  - a:
      set:
        date: 2024-01-01
        moment: 2024-01-01T00:00:00Z
        zip: 012
        octal: 0o17
        hex: 0x1f
        plus: +3
        float: 1.5e3
        yes: yes
        off: off
        none: ~
        empty:
        underscore: 1_000
        sexagesimal: 1:30
        binary: 0b11
        big: 123456789012345678901234567890
        version: 1.0.0
        quoted: "5"
        tagged: !!str 5
        200: ok
`)
	got, ok := def.Do[0].Set.Constant()
	want := map[string]any{
		"date": "2024-01-01", "moment": "2024-01-01T00:00:00Z", "zip": 12, "octal": 15, "hex": 31, "plus": 3, "float": 1500.0,
		"yes": "yes", "off": "off", "none": nil, "empty": nil, "underscore": "1_000", "sexagesimal": "1:30", "binary": "0b11",
		"version": "1.0.0", "quoted": "5", "tagged": "5", "200": "ok",
	}
	want["big"], _ = new(big.Int).SetString("123456789012345678901234567890", 10)
	if diff := cmp.Diff(any(want), got, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); !ok || diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A variable can be used only where it has a value.
func TestAvailability(t *testing.T) {
	t.Parallel()
	standard := []string{"context", "input", "output", "secrets", "task", "workflow", "runtime", "authorization", "item", "index", "error"}
	for place, known := range map[string]string{
		"input: {from: $V}\ndo: []":                                           "secrets workflow runtime",
		"output: {as: $V}\ndo: []":                                            "context secrets workflow runtime",
		"do: [{a: {if: $V, set: {a: 1}}}]":                                    "context secrets task workflow runtime",
		"do: [{a: {input: {from: $V}, set: {a: 1}}}]":                         "context secrets task workflow runtime",
		"do: [{a: {set: '${ $V }'}}]":                                         "context input secrets task workflow runtime authorization",
		"do: [{a: {set: {a: 1}, output: {as: $V}}}]":                          "context input secrets task workflow runtime authorization",
		"do: [{a: {set: {a: 1}, export: {as: $V}}}]":                          "context input output secrets task workflow runtime authorization",
		"do: [{a: {for: {in: $V}, do: []}}]":                                  "context input secrets task workflow runtime authorization",
		"do: [{a: {for: {in: .a}, while: $V, do: []}}]":                       "context input secrets task workflow runtime authorization item index",
		"do: [{a: {for: {in: .a}, do: [{b: {if: $V, set: {a: 1}}}]}}]":        "context secrets task workflow runtime item index",
		"do: [{a: {try: [], catch: {when: $V}}}]":                             "context input secrets task workflow runtime authorization error",
		"do: [{a: {try: [], catch: {retry: {when: $V}}}}]":                    "context input secrets task workflow runtime authorization error",
		"do: [{a: {try: [], catch: {as: $item, do: [{b: {set: '${$V}'}}]}}}]": "context input secrets task workflow runtime authorization item",
		"do: [{a: {listen: {to: {any: []}}, foreach: {output: {as: $V}}}}]":   "context input secrets task workflow runtime authorization item index",
		"use: {functions: {f: {set: '${ $V }'}}}\ndo: []":                     "context input secrets task workflow runtime authorization",
	} {
		for _, name := range standard {
			_, _, err := dsl.Parse("a.yaml", []byte(header+strings.ReplaceAll(place, "$V", "$"+name)))
			if want := slices.Contains(strings.Fields(known), name); (err == nil) != want {
				t.Errorf("%s: $%s is known: %v, want %v (%v)", place, name, err == nil, want, err)
			}
		}
	}
}

// A construct that cannot be run yet is valid, and reported.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	def := parse(t, `
input: {schema: {resource: {endpoint: https://a.example/schema.json}}}
use: {extensions: [{log: {extend: all}}]}
schedule: {every: PT1H}
do:
  - shell: {run: {shell: {command: ls}}}
  - grpc: {call: grpc, with: {proto: {endpoint: https://a.example/p}, service: {name: a, host: b}, method: c}}
  - url: {call: "https://a.example/function.yaml"}
  - schema: {set: {a: 1}, output: {schema: {format: avro, document: {}}}}
  - plain: {set: {a: 1}}
`)
	var got []string
	for _, task := range def.Do {
		got = append(got, task.Unsupported)
	}
	want := []string{"run: shell", "call: grpc", "call: https://a.example/function.yaml (catalog)", "schema: format avro", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	refs := make([]string, len(def.Unsupported))
	for i, one := range def.Unsupported {
		refs[i] = one.Ref
	}
	if diff := cmp.Diff([]string{"/use/extensions", "/schedule", "/input"}, refs); diff != "" {
		t.Errorf("of the document: -want +got\n%s", diff)
	}
}

// In loose mode text is an expression if it compiles as one.
func TestLoose(t *testing.T) {
	t.Parallel()
	def := parse(t, "evaluate: {mode: loose}\ndo: [{a: {set: {x: .a, y: 'Hello ${ .name }!', z: just text}}}]\n")
	var got []bool
	for _, f := range def.Do[0].Set.Fields() {
		got = append(got, f.Value.Program() != nil)
	}
	if diff := cmp.Diff([]bool{true, true, false}, got); diff != "" {
		t.Error(diff)
	}
}

// One mistake does not hide another, and each has a position.
func TestMistakes(t *testing.T) {
	t.Parallel()
	_, _, err := dsl.Parse("a.yaml", []byte(header+"do:\n  - a: {sett: 1}\n  - b: {set: {a: 1}, then: c}\n"))
	want := "a.yaml:3:9: unknown key \"sett\" in task \"a\"\na.yaml:3:15: set: want a map of data, or an expression, this is a number\na.yaml:4:28: then: no task \"c\" in this list"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
