package workflows_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/workflows"
)

func TestNames(t *testing.T) {
	t.Parallel()
	want := "approval billing checkout fan-out heartbeat hello import nightly-report onboarding order-saga poll reminder " +
		"sensors suppliers trial-end webhook"
	if got := strings.Join(workflows.Names(), " "); got != want {
		t.Errorf("Names() = %s\nwant      %s", got, want)
	}
}

// Each workflow comes with a head comment, mocks that parse, and an output.
func TestExamplesAreComplete(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		e, err := workflows.Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(e.Summary) < 20 || len(e.Summary) > 100 || !strings.HasSuffix(e.Summary, ".") {
			t.Errorf("%s: summary is %q", name, e.Summary)
		}
		if _, err := mock.Parse(name+".mocks.yaml", e.Mocks); err != nil {
			t.Error(err)
		}
		if !json.Valid(e.Output) || e.Input != nil && !json.Valid(e.Input) {
			t.Errorf("%s: input or output is not JSON", name)
		}
		checkRunLine(t, e)
	}
}

// checkRunLine checks that the command in the head comment names the files that exist.
func checkRunLine(t *testing.T, e workflows.Example) {
	t.Helper()
	want := "# Run it: flunq run workflows/" + e.Name + ".yaml"
	for child := range e.With {
		want += " --with workflows/" + child
	}
	if !strings.Contains(string(e.Document), want+"\n") {
		t.Errorf("%s: no line %q", e.Name, want)
	}
	if !strings.Contains(string(e.Document), "\n  namespace: examples\n  name: "+e.Name+"\n") {
		t.Errorf("%s: the document has a different name", e.Name)
	}
}

// Each document, including child workflows, is valid by the specification's own schema.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("FLUNQ_SPEC")
	if folder == "" {
		folder = filepath.Join("..", "..", "shared", "spec")
	}
	src, err := os.ReadFile(filepath.Join(folder, "schema", "workflow-v1.0.3.yaml"))
	if err != nil {
		t.Skipf("SKIPPED: the specification was not found (set FLUNQ_SPEC): %v", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseRegexpEngine(withoutLookahead)
	if err = compiler.AddResource("workflow.json", data(t, src)); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("workflow.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range workflows.Names() {
		e, err := workflows.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(data(t, e.Document)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for child, document := range e.With {
			if err := schema.Validate(data(t, document)); err != nil {
				t.Errorf("%s: %v", child, err)
			}
		}
	}
}

// withoutLookahead compiles a pattern of the schema without lookahead, which Go lacks.
func withoutLookahead(pattern string) (jsonschema.Regexp, error) {
	return regexp.Compile(strings.NewReplacer(`(?!$)`, "", `(?=\d)`, "").Replace(pattern))
}

// data decodes YAML to the types of decoded JSON.
func data(t *testing.T, src []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(src, &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLoadChildren(t *testing.T) {
	t.Parallel()
	e, err := workflows.Load("onboarding")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.With) != 1 || len(e.With["onboarding.welcome-kit.yaml"]) == 0 {
		t.Errorf("children of onboarding are %v", e.With)
	}
}

func TestLoadUnknown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"aproval":          `no workflow "aproval", did you mean "approval"?`,
		"saga":             `no workflow "saga", want one of approval, billing,`,
		"approval.mocks":   `no workflow "approval.mocks", want one of approval, billing,`,
		"":                 `no workflow "", want one of`,
		"../workflows/foo": `no workflow "../workflows/foo", want one of`,
	} {
		_, err := workflows.Load(name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q) = %v, want %s", name, err, want)
		}
	}
}
