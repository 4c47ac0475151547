package sim_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cucumber/godog"
	gocmp "github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/sim"
)

// spec is the folder with the specification's data, which is not part of the project.
var spec = flag.String("spec", cmp.Or(os.Getenv("FLUNQ_SPEC"), "../../shared/spec"), "folder of the specification: ctk, examples, schema")

// runs runs a workflow with the real engine, and returns its history, too.
type runs func(ctx context.Context, def *dsl.Definition, input json.RawMessage) (*sim.Result, []event.Event, error)

// All official scenarios of both versions pass, in the simulator and on a real Redis.
func TestConformance(t *testing.T) {
	for _, version := range []string{"v1.0.3", "main-2026-07-29"} {
		folder := filepath.Join(*spec, "ctk", version)
		if _, err := os.Stat(folder); err != nil {
			t.Skipf("CONFORMANCE NOT TESTED: %v (set FLUNQ_SPEC or -spec)", err)
		}
		t.Run("simulated/"+version, func(t *testing.T) { conform(t, folder, simulated) })
		t.Run("remote/"+version, func(t *testing.T) { conform(t, folder, remote) })
		t.Run("redis/"+version, func(t *testing.T) { conform(t, folder, onRedis(t)) })
	}
}

func conform(t *testing.T, folder string, run runs) {
	suite := godog.TestSuite{
		ScenarioInitializer: func(sc *godog.ScenarioContext) { newScenario(run).steps(sc) },
		Options: &godog.Options{
			Format: "pretty", Output: io.Discard, Paths: []string{folder}, TestingT: t, Strict: true,
		},
	}
	if suite.Run() != 0 {
		t.Error("some scenarios failed")
	}
}

func simulated(ctx context.Context, def *dsl.Definition, input json.RawMessage) (*sim.Result, []event.Event, error) {
	var history []event.Event
	r, err := sim.Run(ctx, sim.Config{
		Definition: def, Input: input, Transport: pets{},
		Observe: func(events []event.Event) { history = append(history, events...) },
	})
	return r, history, err
}

// remote also sends computed tasks through the stream.
func remote(ctx context.Context, def *dsl.Definition, input json.RawMessage) (*sim.Result, []event.Event, error) {
	var history []event.Event
	r, err := sim.Run(ctx, sim.Config{
		Definition: def, Input: input, Transport: pets{}, Remote: true,
		Observe: func(events []event.Event) { history = append(history, events...) },
	})
	return r, history, err
}

// onRedis runs the engine's services on a real Redis, with one tenant for each scenario.
func onRedis(t *testing.T) runs {
	rdb := redistest.Start(t)
	var scenario int
	return func(ctx context.Context, def *dsl.Definition, input json.RawMessage) (*sim.Result, []event.Event, error) {
		scenario++
		opts := engine.Defaults()
		opts.Process, opts.Transport = "ctk", httpcall.Outward(pets{})
		opts.Tenants = []string{fmt.Sprintf("ctk-%d", scenario)}
		opts.Block(50 * time.Millisecond)
		e, err := engine.New(rdb, opts)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := e.Prepare(ctx); err != nil {
			return nil, nil, err
		}
		if _, err := e.Definitions.Register(ctx, opts.Tenants[0], def); err != nil {
			return nil, nil, err
		}
		if err := e.Start(ctx, opts.Tenants[0], "scenario", def, input); err != nil {
			return nil, nil, err
		}
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx, slog.New(slog.DiscardHandler)) }()
		history, err := untilEnd(ctx, e, opts.Tenants[0], "scenario")
		if err != nil {
			return nil, nil, err
		}
		cancel()
		if err := <-done; err != nil {
			return nil, nil, err
		}
		return resultOf(history), history, nil
	}
}

// untilEnd returns the history of an execution once it has ended.
func untilEnd(ctx context.Context, e *engine.Engine, tenant, id string) ([]event.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var history []event.Event
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		more, err := e.Store.History(ctx, tenant, id, int64(len(history)), 1000)
		if err != nil {
			return nil, err
		}
		history = append(history, more...)
		if n := len(history); n > 0 {
			switch history[n-1].Type {
			case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
				return history, nil
			}
		}
	}
	return nil, fmt.Errorf("execution %s did not end: %w", id, ctx.Err())
}

func resultOf(history []event.Event) *sim.Result {
	last := history[len(history)-1]
	var ended event.Ended
	if err := json.Unmarshal(last.Data, &ended); err != nil {
		panic(err)
	}
	r := &sim.Result{Output: ended.Output, Error: ended.Error}
	switch last.Type {
	case event.WorkflowCompleted:
		r.Status = decide.Completed
	case event.WorkflowFailed:
		r.Status = decide.Faulted
	default:
		r.Status = decide.Cancelled
	}
	return r
}

// scenario is one running scenario.
type scenario struct {
	run     runs
	def     *dsl.Definition
	input   json.RawMessage
	result  *sim.Result
	history []event.Event
}

func newScenario(run runs) *scenario { return &scenario{run: run} }

func (s *scenario) steps(sc *godog.ScenarioContext) {
	sc.Step(`^a workflow with definition:$`, s.definition)
	sc.Step(`^given the workflow input is:$`, s.setInput)
	sc.Step(`^the workflow is executed$`, s.execute)
	for _, ending := range []string{"cancel", "complete", "fault"} {
		sc.Step(`^the workflow should `+ending+`$`, func() error { return s.ended(ending) })
		sc.Step(`^(\S+) should `+ending+`$`, func(task string) error { return s.taskEnded(task, ending) })
	}
	sc.Step(`^the workflow should complete with output:$`, s.completedWith)
	sc.Step(`^the workflow should fault with error:$`, s.faultedWith)
	sc.Step(`^the workflow output should have properties ((?:'[^']*'(?:,\s*)?)+)$`, s.hasProperties)
	sc.Step(`^the workflow output should have a '([^']*)' property with value:$`, s.hasValue)
	sc.Step(`^the workflow output should have a '([^']*)' property containing (\d+) items$`, s.hasItems)
	sc.Step(`^(\S+) should run (first|last)$`, s.ranAt)
	sc.Step(`^(\S+) should run (before|after) (\S+)$`, s.ranBeside)
	sc.Step(`^(\S+) should complete with output:$`, s.taskCompletedWith)
	sc.Step(`^(\S+) should fault with error:$`, s.taskFaultedWith)
}

func (s *scenario) definition(doc *godog.DocString) (err error) {
	s.def, _, err = dsl.Parse("scenario.yaml", []byte(doc.Content))
	return err
}

func (s *scenario) setInput(doc *godog.DocString) error {
	v, err := data(doc)
	s.input = canonical.Encode(v)
	return err
}

func (s *scenario) execute(ctx context.Context) (err error) {
	s.result, s.history, err = s.run(ctx, s.def, s.input)
	return err
}

func (s *scenario) ended(how string) error {
	want := map[string]decide.Status{"cancel": decide.Cancelled, "complete": decide.Completed, "fault": decide.Faulted}[how]
	if s.result.Status != want {
		return fmt.Errorf("the workflow is %s (%w), want %s", s.result.Status, s.result.Error, want)
	}
	return nil
}

func (s *scenario) completedWith(doc *godog.DocString) error {
	if err := s.ended("complete"); err != nil {
		return err
	}
	return same(doc, s.output())
}

func (s *scenario) faultedWith(doc *godog.DocString) error {
	if err := s.ended("fault"); err != nil {
		return err
	}
	return sameMembers(doc, s.result.Error)
}

func (s *scenario) output() any { return decoded(s.result.Output) }

func (s *scenario) property(path string) (any, error) {
	v := s.output()
	for name := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: %v is no object", path, v)
		}
		if v, ok = object[name]; !ok {
			return nil, fmt.Errorf("the output %s has no %s", s.result.Output, path)
		}
	}
	return v, nil
}

func (s *scenario) hasProperties(list string) error {
	var errs []error
	for part := range strings.SplitSeq(list, ",") {
		_, err := s.property(strings.Trim(strings.TrimSpace(part), "'"))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *scenario) hasValue(path string, doc *godog.DocString) error {
	v, err := s.property(path)
	if err != nil {
		return err
	}
	return same(doc, v)
}

func (s *scenario) hasItems(path string, n int) error {
	v, err := s.property(path)
	if err != nil {
		return err
	}
	items, ok := v.([]any)
	if !ok || len(items) != n {
		return fmt.Errorf("%s is %v, want %d items", path, v, n)
	}
	return nil
}

// order returns the names of the tasks that ran, in the order in which they began.
func (s *scenario) order() []string {
	var names []string
	for _, e := range s.history {
		if e.Type == event.TaskRequested {
			var r event.Requested
			if err := json.Unmarshal(e.Data, &r); err == nil {
				names = append(names, r.TaskName)
			}
		}
	}
	return names
}

func (s *scenario) ranAt(task, where string) error {
	order := s.order()
	if len(order) == 0 {
		return errors.New("no task ran")
	}
	got := order[0]
	if where == "last" {
		got = order[len(order)-1]
	}
	if got != task {
		return fmt.Errorf("%s ran %s, want %s (%v)", got, where, task, order)
	}
	return nil
}

func (s *scenario) ranBeside(task, where, other string) error {
	at := map[string]int{}
	for i, name := range s.order() {
		at[name] = i + 1
	}
	if at[task] == 0 || at[other] == 0 || (where == "before") != (at[task] < at[other]) {
		return fmt.Errorf("want %s %s %s, ran %v", task, where, other, s.order())
	}
	return nil
}

// completion returns the end of a task in the history.
func (s *scenario) completion(task string) (c event.Completed, err error) {
	for _, e := range s.history {
		if e.Type != event.TaskCompleted {
			continue
		}
		var got event.Completed
		if err := json.Unmarshal(e.Data, &got); err != nil {
			return c, err
		}
		if got.TaskName == task {
			c = got
		}
	}
	if c.TaskName == "" {
		err = fmt.Errorf("task %s did not end", task)
	}
	return c, err
}

func (s *scenario) taskEnded(task, how string) error {
	c, err := s.completion(task)
	if err != nil {
		return err
	}
	got := "complete"
	switch {
	case c.Status == "cancelled":
		got = "cancel"
	case !c.Success:
		got = "fault"
	}
	if got != how {
		return fmt.Errorf("task %s: %s, want %s", task, got, how)
	}
	return nil
}

func (s *scenario) taskCompletedWith(task string, doc *godog.DocString) error {
	c, err := s.completion(task)
	if err != nil {
		return err
	}
	return same(doc, decoded(c.Output))
}

func (s *scenario) taskFaultedWith(task string, doc *godog.DocString) error {
	c, err := s.completion(task)
	if err != nil {
		return err
	}
	return sameMembers(doc, c.Error)
}

func data(doc *godog.DocString) (any, error) { return dsl.ParseData("step", []byte(doc.Content)) }

func decoded(src []byte) any {
	v, err := canonical.Decode(src)
	if err != nil {
		panic(err)
	}
	return v
}

func same(doc *godog.DocString, got any) error {
	want, err := data(doc)
	if err != nil {
		return err
	}
	if !canonical.Equal(want, got) {
		return errors.New(gocmp.Diff(string(canonical.Encode(want)), string(canonical.Encode(got))))
	}
	return nil
}

// sameMembers compares the wanted members; others are ignored.
func sameMembers(doc *godog.DocString, p *event.Problem) error {
	v, err := data(doc)
	if err != nil {
		return err
	}
	want, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("the step wants %v, not an object", v)
	}
	got, ok := decoded(event.Encode(p)).(map[string]any)
	if !ok {
		return fmt.Errorf("the error is %w", p)
	}
	for name, value := range want {
		if !canonical.Equal(value, got[name]) {
			return fmt.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
	return nil
}

// pets answers the calls of the scenarios.
type pets struct{}

func (pets) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body := pets{}.answer(req)
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

func (pets) answer(req *http.Request) (int, string) {
	const pet = `{"id":%s,"name":"Milou","status":"available","photoUrls":[]}`
	user, password, _ := req.BasicAuth()
	switch req.URL.Host + req.URL.Path {
	case "petstore.swagger.io/v2/pet/findByStatus":
		if req.URL.Query().Get("status") != "available" {
			return 200, "[]"
		}
		return 200, "[" + fmt.Sprintf(pet, "1") + "," + fmt.Sprintf(pet, "2") + "]"
	case "petstore.swagger.io/v2/pet/1":
		return 200, fmt.Sprintf(pet, "1")
	case "petstore.swagger.io/v2/pet/2":
		return 200, fmt.Sprintf(pet, "2")
	case "petstore.swagger.io/v2/swagger.json":
		return 200, petstore
	case "httpbin.org/basic-auth/serverless-workflow/conformance-test":
		if user == "serverless-workflow" && password == "conformance-test" {
			return 200, `{"authenticated":true}`
		}
		return 401, "{}"
	default:
		return 404, `{"code":1,"message":"not found"}`
	}
}

// petstore is the part of the pet store's description that the scenarios use.
const petstore = `{"swagger":"2.0","info":{"title":"pets","version":"1"},"host":"petstore.swagger.io","basePath":"/v2","schemes":["https"],
"paths":{
"/pet/findByStatus":{"get":{"operationId":"findPetsByStatus","produces":["application/json"],
 "parameters":[{"name":"status","in":"query","required":true,"type":"array","items":{"type":"string"},"collectionFormat":"multi"}],
 "responses":{"200":{"description":"ok"}}}},
"/pet/{petId}":{"get":{"operationId":"getPetById","produces":["application/json"],
 "parameters":[{"name":"petId","in":"path","required":true,"type":"integer","format":"int64"}],
 "responses":{"200":{"description":"ok"}}}}}}`
