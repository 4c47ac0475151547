package run

import (
	"bytes"
	"encoding/json"
	"fmt"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/search"
)

// simJSON is the result of a search in the JSON output.
type simJSON struct {
	Workflow string         `json:"workflow"`
	Test     string         `json:"test,omitempty"`
	Plain    int            `json:"plain"`
	Singles  int            `json:"singles"`
	Seeds    int            `json:"seeds"`
	Faults   map[string]int `json:"faults"`
	Orders   int            `json:"orders"`
	Trace    string         `json:"trace"`
	Stopped  bool           `json:"stopped,omitempty"`
	Why      search.Reason  `json:"stopped_by,omitempty"`
	Unmocked []string       `json:"unmocked,omitempty"` // calls that no mock answers, in runs with faults
	Outcomes []outcomeJSON  `json:"outcomes"`
	Findings []findingJSON  `json:"findings"`
	Hints    []hintJSON     `json:"hints"`
}

type outcomeJSON struct {
	Status string          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  *event.Problem  `json:"error,omitempty"`
	Runs   int             `json:"runs"`
	Apart  []string        `json:"apart,omitempty"` // changes that other outcomes did not make
}

type findingJSON struct {
	Class     search.Class    `json:"class"`
	Failure   bool            `json:"failure"`
	Rule      string          `json:"rule"`
	Detail    string          `json:"detail,omitempty"`
	Execution string          `json:"execution,omitempty"`
	Companion string          `json:"companion,omitempty"` // the built-in workflow concerned; "": the document
	Task      string          `json:"task,omitempty"`
	Runs      int             `json:"runs"`
	FaultFree int             `json:"runs_without_faults"`
	Advice    string          `json:"advice"`
	Plan      search.Scenario `json:"plan"`
	Differ    []differJSON    `json:"differ,omitempty"`
	Calls     []callJSON      `json:"calls,omitempty"`
	Repeat    string          `json:"again"`
}

type differJSON struct {
	Path  string `json:"path"`
	Usual any    `json:"usual"`
	Here  any    `json:"here"`
}

// callJSON is a call that was carried out an unusual number of times.
type callJSON struct {
	search.Effect

	Usual int `json:"usual"`
	Here  int `json:"here"`
}

type hintJSON struct {
	Kind string `json:"kind"`
	Task string `json:"task,omitempty"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

func (s *searcher) writeJSON(found []*searched) error {
	all := make([]simJSON, 0, len(found))
	for _, got := range found {
		all = append(all, s.asJSON(got))
	}
	var value any = all
	if s.test == "" && len(all) == 1 {
		value = all[0]
	}
	var out bytes.Buffer
	if err := cli.WriteJSON(&out, value); err != nil {
		return err
	}
	text := out.String()
	if len(found) > 0 {
		text = found[0].redact(text)
	}
	fmt.Fprint(s.sh.Out, text)
	return nil
}

func (s *searcher) asJSON(got *searched) simJSON {
	out := simJSON{
		Workflow: got.search.Config.Definition.ID(), Test: got.name, Plain: got.Plain, Singles: got.Singles, Seeds: got.Seeds,
		Faults: map[string]int{}, Orders: got.Orders, Trace: got.Trace, Stopped: got.Stopped != "", Why: got.Stopped, Unmocked: got.Unmocked,
	}
	for kind, n := range got.Faults {
		out.Faults[string(kind)] = n
	}
	for _, o := range got.Outcomes {
		out.Outcomes = append(out.Outcomes, outcomeJSON{o.Status, o.Output, o.Error, o.Runs, o.Distinct})
	}
	for _, f := range got.Findings {
		one := findingJSON{
			Class: f.Class, Failure: s.counts(f), Rule: f.Rule, Detail: f.Detail, Execution: f.Execution, Task: f.Task,
			Runs: f.Runs, FaultFree: f.FaultFree, Advice: s.meaning(f), Plan: f.Small, Repeat: s.repeat(got, f),
		}
		for _, u := range f.Differ {
			one.Differ = append(one.Differ, differJSON{u.Path, u.A, u.B})
		}
		one.Companion = f.Companion
		for _, u := range f.Calls {
			one.Calls = append(one.Calls, callJSON{u.Effect, u.Usual, u.Here})
		}
		out.Findings = append(out.Findings, one)
	}
	for _, h := range got.Hints {
		one := hintJSON{Kind: h.Kind, Text: h.Text}
		if h.Task != nil {
			one.Task, one.Line = h.Task.Ref, h.Task.Pos.Line
		}
		out.Hints = append(out.Hints, one)
	}
	return out
}
