package sim_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// spec is the folder with the specification's data, which is not part of the project.
var spec = flag.String("spec", cmp.Or(os.Getenv("FLUNQ_SPEC"), "../../shared/spec"), "folder of the specification: ctk, examples, schema")

// example is one run of an official example, and how it has to end.
type example struct {
	input   string // JSON; {} if empty
	mocks   string // YAML
	secrets string // JSON
	with    string // a further document, YAML

	output  string // JSON; completes with it
	fault   string // short name or URI of the error's type
	detail  string // part of the error's detail
	at      string // instance of the error
	waits   bool   // does not end, because an event is missing
	elapsed time.Duration
	calls   []string // that go out, in order; not compared if nil
}

// All official examples run as they should; those that need more than HTTP and events fault
// with an error that names what is unsupported.
func TestExamples(t *testing.T) {
	t.Parallel()
	table := examples()
	for _, version := range []string{"v1.0.3", "main-2026-07-29"} {
		folder := filepath.Join(*spec, "examples", version)
		if _, err := os.Stat(folder); err != nil {
			t.Skipf("EXAMPLES NOT TESTED: %v (set FLUNQ_SPEC or -spec)", err)
		}
		for _, name := range exampleNames(t, folder) {
			cases, known := table[name]
			if !known {
				t.Errorf("%s/%s has no entry in the table", version, name)
			}
			for i, c := range cases {
				t.Run(fmt.Sprintf("%s/%s/%d", version, name, i), func(t *testing.T) {
					t.Parallel()
					c.check(t, filepath.Join(folder, filepath.FromSlash(name)))
				})
			}
		}
	}
}

// Each entry of the table has a file.
func TestExamplesExist(t *testing.T) {
	t.Parallel()
	left := examples()
	for _, version := range []string{"v1.0.3", "main-2026-07-29"} {
		folder := filepath.Join(*spec, "examples", version)
		if _, err := os.Stat(folder); err != nil {
			t.Skipf("EXAMPLES NOT TESTED: %v (set FLUNQ_SPEC or -spec)", err)
		}
		for _, name := range exampleNames(t, folder) {
			delete(left, name)
		}
	}
	if names := slices.Sorted(maps.Keys(left)); len(names) > 0 {
		t.Errorf("the table names files that are not there: %v", names)
	}
}

// exampleNames returns the documents below a folder that should be valid.
func exampleNames(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.yaml", "dsl-reference/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s in %s (%v)", pattern, folder, err)
		}
		for _, file := range files {
			name, err := filepath.Rel(folder, file)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.ToSlash(name))
		}
	}
	return names
}

func (e example) check(t *testing.T, file string) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg := e.config(t, file, src)
	var calls []string
	cfg.Exchange = func(x mock.Exchange) { calls = append(calls, x.Method+" "+x.URL) }
	r, err := sim.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if e.calls != nil {
		if diff := gocmp.Diff(e.calls, calls); diff != "" {
			t.Errorf("calls, -want +got:\n%s", diff)
		}
	}
	if e.elapsed != 0 && e.elapsed != r.Elapsed {
		t.Errorf("took %v, want %v", r.Elapsed, e.elapsed)
	}
	e.checkEnd(t, r)
}

func (e example) config(t *testing.T, file string, src []byte) sim.Config {
	t.Helper()
	cfg := sim.Config{ID: "example", Input: json.RawMessage(e.input), Definition: parsed(t, file, src)}
	if e.with != "" {
		cfg.With = []*dsl.Definition{parsed(t, "with.yaml", []byte(e.with))}
	}
	mocks, err := mock.Parse("mocks.yaml", []byte(e.mocks))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Mocks = mocks
	if e.secrets != "" {
		if err := json.Unmarshal([]byte(e.secrets), &cfg.Secrets); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

func parsed(t *testing.T, file string, src []byte) *dsl.Definition {
	t.Helper()
	def, _, err := dsl.Parse(file, src)
	if err != nil {
		t.Fatal(err)
	}
	return def
}

func (e example) checkEnd(t *testing.T, r *sim.Result) {
	t.Helper()
	switch {
	case e.waits:
		if r.Stop != sim.Never {
			t.Errorf("ended: %s %s %v, want it to wait", r.Status, r.Output, r.Error)
		}
	case e.fault != "":
		if r.Status != decide.Faulted || r.Error == nil {
			t.Fatalf("%s %s (%s), want a fault of type %s", r.Status, r.Output, r.Waiting, e.fault)
		}
		if got := event.ShortType(r.Error.Type); got != e.fault {
			t.Errorf("type of the error is %s, want %s (%v)", got, e.fault, r.Error)
		}
		if !strings.Contains(r.Error.Detail, e.detail) {
			t.Errorf("detail is %q, want %q in it", r.Error.Detail, e.detail)
		}
		if e.at != "" && r.Error.Instance != e.at {
			t.Errorf("instance is %s, want %s", r.Error.Instance, e.at)
		}
	default:
		if r.Status != decide.Completed {
			t.Fatalf("%s: %v %s, want output %s", r.Status, r.Error, r.Waiting, e.output)
		}
		if want := decoded([]byte(e.output)); !canonical.Equal(want, decoded(r.Output)) {
			t.Errorf("output, -want +got:\n%s", gocmp.Diff(string(canonical.Encode(want)), string(r.Output)))
		}
	}
}

// cannot returns a run that ends where the engine finds an unsupported construct.
func cannot(construct, at string) []example {
	return []example{{fault: "configuration", detail: construct, at: at}}
}

func unsupportedExamples() map[string][]example {
	container := cannot("run: container", "/do/0/runContainer")
	const pet = `{"petId": 7}`
	secret := []example{
		{input: pet, secrets: `{"mySecret": {"authority": "https://a.example"}}`, fault: "configuration", detail: "oauth2", at: "/do/0/getPet"},
		{input: pet, fault: "configuration", detail: "oauth2", at: "/do/0/getPet"},
	}
	petCannot := func(construct string) []example {
		return []example{{input: pet, fault: "configuration", detail: construct, at: "/do/0/getPet"}}
	}
	return map[string][]example{
		"authentication-oauth2-secret.yaml":                    secret,
		"authentication-oauth2.yaml":                           petCannot("oauth2"),
		"authentication-oidc-secret.yaml":                      petCannot("oidc"),
		"authentication-oidc.yaml":                             petCannot("oidc"),
		"call-asyncapi-publish.yaml":                           cannot("call: asyncapi", "/do/0/findPet"),
		"call-asyncapi-subscribe-consume-amount.yaml":          cannot("call: asyncapi", "/do/0/getNotifications"),
		"call-asyncapi-subscribe-consume-forever-foreach.yaml": cannot("call: asyncapi", "/do/0/getNotifications"),
		"call-asyncapi-subscribe-consume-until.yaml":           cannot("call: asyncapi", "/do/0/getNotifications"),
		"call-asyncapi-subscribe-consume-while.yaml":           cannot("call: asyncapi", "/do/0/getNotifications"),
		"call-custom-function-cataloged.yaml":                  cannot("catalog", "/do/0/log"),
		"call-grpc.yaml":                                       cannot("call: grpc", "/do/0/greet"),
		"call-mcp.yaml":                                        cannot("call: mcp", "/do/0/publishMessageToSlack"),
		"mock-service-extension.yaml":                          cannot("use.extensions", "/use/extensions"),
		"run-container-cleanup-always.yaml":                    container,
		"run-container-cleanup-eventually.yaml":                container,
		"run-container-stdin-and-arguments.yaml":               cannot("run: container", "/do/1/runContainer"),
		"run-container-with-name.yaml":                         container,
		"run-container-with-pull-policy.yaml":                  container,
		"run-container.yaml":                                   container,
		"run-return-all.yaml":                                  container,
		"run-return-code.yaml":                                 container,
		"run-return-none.yaml":                                 container,
		"run-return-stderr.yaml":                               container,
		"run-script-with-stdin-and-arguments.yaml":             cannot("run: script", "/do/0/runScript"),
		"run-shell-stdin-and-arguments.yaml":                   cannot("run: shell", "/do/1/runShell"),
		"schedule-cron.yaml":                                   cannot("schedule", "/schedule"),
		"schedule-event-driven.yaml":                           cannot("schedule", "/schedule"),
		"set-expression.yaml":                                  cannot("schedule", "/schedule"),
		"set.yaml":                                             cannot("schedule", "/schedule"),

		"dsl-reference/dsl-40-catalog-example.yaml":                         cannot("catalog", "/do/0/log"),
		"dsl-reference/dsl-41-customFunctionWorkflow.yaml":                  cannot("catalog", "/do/0/validateEmail"),
		"dsl-reference/dsl-reference-01-order-pet.yaml":                     cannot("use.extensions", "/use/extensions"),
		"dsl-reference/dsl-reference-03-asyncapi-example.yaml":              cannot("call: asyncapi", "/do/0/publishGreetings"),
		"dsl-reference/dsl-reference-04-grpc-example.yaml":                  cannot("call: grpc", "/do/0/greet"),
		"dsl-reference/dsl-reference-07-a2a-example.yaml":                   cannot("call: a2a", "/do/0/GenerateReport"),
		"dsl-reference/dsl-reference-08-mcp-example.yaml":                   cannot("call: mcp", "/do/0/publishMessageToSlack"),
		"dsl-reference/dsl-reference-09-do-example.yaml":                    cannot("oauth2", "/do/0/bookHotel"),
		"dsl-reference/dsl-reference-15-run-example.yaml":                   container,
		"dsl-reference/dsl-reference-16-run-container-example.yaml":         cannot("run: container", "/do/1/runContainer"),
		"dsl-reference/dsl-reference-17-run-script-example.yaml":            cannot("run: script", "/do/0/runScript"),
		"dsl-reference/dsl-reference-18-run-shell-example.yaml":             cannot("run: shell", "/do/1/runShell"),
		"dsl-reference/dsl-reference-27-digest-authentication-example.yaml": cannot("digest", "/do/0/sampleTask"),
		"dsl-reference/dsl-reference-28-oauth2-authentication-example.yaml": cannot("oauth2", "/do/0/sampleTask"),
		"dsl-reference/dsl-reference-29-oidc-authentication-example.yaml":   cannot("oidc", "/do/0/sampleTask"),
		"dsl-reference/dsl-reference-30-catalog-example.yaml":               cannot("catalog", "/do/0/log"),
		"dsl-reference/dsl-reference-31-logging-extension-example.yaml":     cannot("use.extensions", "/use/extensions"),
		"dsl-reference/dsl-reference-32-intercept-extension-example.yaml":   cannot("use.extensions", "/use/extensions"),
		"dsl-reference/dsl-reference-34-run-container-example.yaml":         container,
		"dsl-reference/dsl-reference-35-asyncapi-example.yaml":              cannot("call: asyncapi", "/do/0/publishGreetings"),
		"dsl-reference/dsl-reference-36-asyncapi-example.yaml":              cannot("call: asyncapi", "/do/0/publishGreetings"),
		"dsl-reference/dsl-reference-37-asyncapi-example.yaml":              cannot("call: asyncapi", "/do/0/subscribeToChatInboxForAmount"),
		"dsl-reference/dsl-reference-38-asyncapi-example.yaml":              cannot("call: asyncapi", "/do/0/subscribeToChatInboxUntil"),
		"dsl-reference/dsl-reference-39-asyncapi-example.yaml":              cannot("call: asyncapi", "/do/0/subscribeToChatInboxUntil"),
	}
}

func decoded(src []byte) any {
	v, err := canonical.Decode(src)
	if err != nil {
		panic(err)
	}
	return v
}
