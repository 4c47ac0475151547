// Package conformance reads and runs the scenarios of the conformance test kit (CTK) of the
// Serverless Workflow specification, which are written as Gherkin features.
package conformance

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	gherkin "github.com/cucumber/gherkin/go/v26"
	messages "github.com/cucumber/messages/go/v21"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/mock"
)

//go:embed ctk services.mocks.yaml
var embedded embed.FS

// Official returns the scenarios of the specification's release and of its main branch, with a
// folder for each version.
func Official() fs.FS {
	ctk, err := fs.Sub(embedded, "ctk")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return ctk
}

// Services returns mocks of the public services that the official scenarios call.
func Services() *mock.Set {
	src, err := embedded.ReadFile("services.mocks.yaml")
	if err != nil {
		panic(err) // the file is embedded
	}
	set, err := mock.Parse("services.mocks.yaml", src)
	if err != nil {
		panic(err) // a test parses it
	}
	return set
}

// Scenario is one scenario of a feature.
type Scenario struct {
	Version string // the folder of the file; "" if it lies in the root
	Feature string // the name of the file without .feature
	Name    string
	File    string
	Line    int64

	steps []*messages.Step
}

// Read returns the scenarios of all .feature files, in the order of the files' paths. A scenario
// outline is an error, as the test kit has none.
func Read(files fs.FS) ([]Scenario, error) {
	var found []Scenario
	var ids int
	nextID := func() string { ids++; return strconv.Itoa(ids) }
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".feature" {
			return err
		}
		src, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		doc, err := gherkin.ParseGherkinDocument(bytes.NewReader(src), nextID)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		scenarios, err := scenariosOf(file, doc)
		found = append(found, scenarios...)
		return err
	})
	return found, err
}

func scenariosOf(file string, doc *messages.GherkinDocument) ([]Scenario, error) {
	if doc.Feature == nil {
		return nil, nil
	}
	base := Scenario{Feature: strings.TrimSuffix(path.Base(file), ".feature"), File: file}
	if folder := path.Dir(file); folder != "." {
		base.Version = folder
	}
	var found []Scenario
	var background []*messages.Step
	for _, child := range doc.Feature.Children {
		switch {
		case child.Background != nil:
			background = child.Background.Steps
		case child.Scenario != nil && len(child.Scenario.Examples) == 0:
			s := base
			s.Name, s.Line = child.Scenario.Name, child.Scenario.Location.Line
			s.steps = append(append(s.steps, background...), child.Scenario.Steps...)
			found = append(found, s)
		default:
			return nil, fmt.Errorf("%s: rules and scenario outlines are not supported", file)
		}
	}
	return found, nil
}

// Outcome is how a workflow ended.
type Outcome struct {
	Status  decide.Status
	Output  json.RawMessage
	Error   *event.Problem
	History []event.Event
}

// Run runs a workflow until it ends.
type Run func(ctx context.Context, def *dsl.Definition, input json.RawMessage) (Outcome, error)

// Check runs the scenario. An error names the step that failed and says why.
func (s Scenario) Check(ctx context.Context, run Run) error {
	c := &check{ctx: ctx, run: run}
	for _, step := range s.steps {
		if err := c.step(step); err != nil {
			return fmt.Errorf("line %d, %q: %w", step.Location.Line, step.Text, err)
		}
	}
	if c.outcome == nil {
		return errors.New("the scenario executes no workflow")
	}
	return nil
}
