package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	messages "github.com/cucumber/messages/go/v21"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// check is one run of a scenario.
type check struct {
	ctx     context.Context //nolint:containedctx // lives as long as Scenario.Check
	run     Run
	def     *dsl.Definition
	input   json.RawMessage
	outcome *Outcome // nil until the workflow is executed
}

// definitions are the sentences of the test kit. A method gets what the parentheses match and,
// last, the step's text block.
func definitions() []definition {
	return []definition{
		{`a workflow with definition:`, (*check).define},
		{`given the workflow input is:`, (*check).setInput},
		{`the workflow is executed`, (*check).execute},
		{`the workflow output should have properties ((?:'[^']*'(?:,\s*)?)+)`, (*check).hasProperties},
		{`the workflow output should have a '([^']*)' property with value:`, (*check).hasValue},
		{`the workflow output should have a '([^']*)' property containing (\d+) items`, (*check).hasItems},
		{`(\S+) should run (first|last)`, (*check).ranAt},
		{`(\S+) should run (before|after) (\S+)`, (*check).ranBeside},
		{`(the workflow|\S+) should (cancel|complete|fault)`, (*check).ended},
		{`(the workflow|\S+) should complete with output:`, (*check).completedWith},
		{`(the workflow|\S+) should fault with error:`, (*check).faultedWith},
	}
}

type definition struct {
	sentence string
	do       func(c *check, args []string) error
}

func (c *check) step(step *messages.Step) error {
	for _, d := range definitions() {
		groups := regexp.MustCompile("^" + d.sentence + "$").FindStringSubmatch(step.Text)
		if groups == nil {
			continue
		}
		args := groups[1:]
		if strings.HasSuffix(d.sentence, ":") {
			if step.DocString == nil {
				return errors.New("the step has no text block")
			}
			args = append(args, step.DocString.Content)
		}
		if c.outcome == nil && strings.Contains(d.sentence, "should") {
			return errors.New("no workflow has been executed yet")
		}
		return d.do(c, args)
	}
	return errors.New("unknown step")
}

func (c *check) define(args []string) (err error) {
	c.def, _, err = dsl.Parse("scenario.yaml", []byte(args[0]))
	return err
}

func (c *check) setInput(args []string) error {
	v, err := data(args[0])
	c.input = canonical.Encode(v)
	return err
}

func (c *check) execute([]string) error {
	if c.def == nil {
		return errors.New("the scenario defines no workflow")
	}
	outcome, err := c.run(c.ctx, c.def, c.input)
	c.outcome = &outcome
	return err
}

// ending is how the workflow, or a task, ended.
type ending struct {
	status  decide.Status
	output  json.RawMessage
	problem *event.Problem
}

// end returns how the workflow, or a task, ended: the last time if the task ran several times.
func (c *check) end(of string) (ending, error) {
	if of == "the workflow" {
		return ending{c.outcome.Status, c.outcome.Output, c.outcome.Error}, nil
	}
	for _, e := range slices.Backward(c.outcome.History) {
		var got event.Completed
		if e.Type != event.TaskCompleted {
			continue
		}
		if err := json.Unmarshal(e.Data, &got); err != nil {
			return ending{}, err
		}
		switch {
		case got.TaskName != of:
		case got.Status == "cancelled":
			return ending{decide.Cancelled, got.Output, got.Error}, nil
		case got.Success:
			return ending{decide.Completed, got.Output, nil}, nil
		default:
			return ending{decide.Faulted, got.Output, got.Error}, nil
		}
	}
	return ending{}, fmt.Errorf("task %s did not end", of)
}

func (c *check) ended(args []string) error {
	want := map[string]decide.Status{"cancel": decide.Cancelled, "complete": decide.Completed, "fault": decide.Faulted}[args[1]]
	end, err := c.end(args[0])
	switch {
	case err != nil:
		return err
	case end.status == want:
		return nil
	case end.problem != nil:
		return fmt.Errorf("%s is %s: %w", args[0], end.status, end.problem)
	default:
		return fmt.Errorf("%s is %s", args[0], end.status)
	}
}

func (c *check) completedWith(args []string) error {
	if err := c.ended([]string{args[0], "complete"}); err != nil {
		return err
	}
	end, err := c.end(args[0])
	return cmp.Or(err, wantSame(args[1], end.output))
}

func (c *check) faultedWith(args []string) error {
	if err := c.ended([]string{args[0], "fault"}); err != nil {
		return err
	}
	end, err := c.end(args[0])
	return cmp.Or(err, wantMembers(args[1], end.problem))
}

// property returns the member of the output at a dot-separated path.
func (c *check) property(path string) (any, error) {
	v, err := canonical.Decode(c.outcome.Output)
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if ok {
			v, ok = object[name]
		}
		if !ok {
			return nil, fmt.Errorf("the output %s has no %s", c.outcome.Output, path)
		}
	}
	return v, nil
}

func (c *check) hasProperties(args []string) error {
	var errs []error
	for part := range strings.SplitSeq(args[0], ",") {
		_, err := c.property(strings.Trim(strings.TrimSpace(part), "'"))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *check) hasValue(args []string) error {
	v, err := c.property(args[0])
	if err != nil {
		return err
	}
	return wantSame(args[1], canonical.Encode(v))
}

func (c *check) hasItems(args []string) error {
	v, err := c.property(args[0])
	if err != nil {
		return err
	}
	items, ok := v.([]any)
	if n, err := strconv.Atoi(args[1]); err != nil || !ok || len(items) != n {
		return fmt.Errorf("%s is %s, want %s items", args[0], canonical.Encode(v), args[1])
	}
	return nil
}

// order returns the names of the tasks that ran, in the order in which they began.
func (c *check) order() []string {
	var names []string
	for _, e := range c.outcome.History {
		var r event.Requested
		if e.Type == event.TaskRequested && json.Unmarshal(e.Data, &r) == nil {
			names = append(names, r.TaskName)
		}
	}
	return names
}

func (c *check) ranAt(args []string) error {
	order := c.order()
	if args[1] == "last" {
		slices.Reverse(order)
	}
	if len(order) == 0 || order[0] != args[0] {
		return fmt.Errorf("the tasks ran in the order %v", c.order())
	}
	return nil
}

func (c *check) ranBeside(args []string) error {
	order := c.order()
	at, other := slices.Index(order, args[0]), slices.Index(order, args[2])
	if at < 0 || other < 0 || (args[1] == "before") != (at < other) {
		return fmt.Errorf("the tasks ran in the order %v", order)
	}
	return nil
}

func data(text string) (any, error) { return dsl.ParseData("step", []byte(text)) }

func wantSame(text string, got json.RawMessage) error {
	want, err := data(text)
	if err != nil {
		return err
	}
	v, err := canonical.Decode(got)
	if err != nil {
		return err
	}
	if !canonical.Equal(want, v) {
		return fmt.Errorf("got %s, want %s", got, canonical.Encode(want))
	}
	return nil
}

// wantMembers compares the members of an error that the step names.
func wantMembers(text string, problem *event.Problem) error {
	v, err := data(text)
	if err != nil {
		return err
	}
	want, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("the step wants %s, not an object", canonical.Encode(v))
	}
	v, err = canonical.Decode(event.Encode(problem))
	if err != nil {
		return err
	}
	got, ok := v.(map[string]any)
	if !ok {
		return errors.New("there is no error")
	}
	for name, value := range want {
		if !canonical.Equal(value, got[name]) {
			return fmt.Errorf("%s is %s, want %s", name, canonical.Encode(got[name]), canonical.Encode(value))
		}
	}
	return nil
}
