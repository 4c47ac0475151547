package search

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// Report is the result of a search.
type Report struct {
	Plain, Singles, Seeds       int // number of runs
	PlainOf, SinglesOf, SeedsOf int // number of planned runs
	Companions                  int // number of runs of the simulator's own workflows
	PossibleSingles             int // number of possible single faults, of which SinglesOf are tried
	FaultFree                   int // runs without faults and operator actions
	SinglesFree                 int // single faults that never happened
	Faults                      map[sim.FaultKind]int
	Orders                      int       // distinct orders of events
	Trace                       string    // hash of what happened in all runs: equal for equal searches
	Seconds                     int64     // virtual, of all runs
	Outcomes                    []Outcome // of the runs without faults, the most frequent first
	Findings                    []*Finding
	Hints                       []Hint
	Stopped                     Reason   // why it stopped early; "" if it did not
	Unmocked                    []string // calls that no mock answers, made in runs with faults; these runs were not evaluated
	UnmockedRuns                int
}

// Runs returns the number of runs of the search.
func (r *Report) Runs() int { return r.Plain + r.Singles + r.Seeds }

// reports reports whether a finding of a class is about a task.
func (r *Report) reports(class Class, ref string) bool {
	return slices.ContainsFunc(r.Findings, func(f *Finding) bool { return f.Class == class && f.Tasks[ref] > 0 })
}

// reportsOnce reports whether a failed expectation is about a call.
func (r *Report) reportsOnce(call sim.CallID) bool {
	return slices.ContainsFunc(r.Findings, func(f *Finding) bool {
		return f.Class == Expectation && strings.HasPrefix(f.Rule, "once:") && strings.HasPrefix(f.Detail, call.Method+" "+call.URL+" ")
	})
}

// Reason is why a search stopped before its end.
type Reason string

// The reasons to stop.
const (
	Interrupted Reason = "interrupted"
	OutOfTime   Reason = "duration"
	FailedFast  Reason = "fail-fast"
	EnoughFound Reason = "findings" // there are enough findings
)

// Outcome is how a run can end.
type Outcome struct {
	Status   string
	Output   []byte
	Error    *event.Problem
	Distinct []string // external effects that other outcomes do not have
	Runs     int
}

// Class says whose failure a finding is.
type Class string

// The classes of findings.
const (
	Engine      Class = "engine"      // flunq violated an invariant
	Expectation Class = "expectation" // an expectation of the user was not met
	Race        Class = "race"        // the outcome of the workflow depends on which of its steps comes first
	Hang        Class = "hang"        // an execution that ends in other runs waits forever
	SideEffect  Class = "effect"      // a call is carried out twice or is never undone
	Late        Class = "late"        // a note: the outcome depends on delays, or on a lost response
)

// The rules about outcomes: those of flunq, and those of workflows.
const (
	ruleSame = "the outcome equals that of a run without faults"
	ruleEnds = "every execution ends"

	RuleOrder       = "the outcome depends on which step comes first"
	RuleHang        = "an execution waits forever"
	RuleTwice       = "a call is carried out twice"
	RuleOverwritten = "an update is lost to a concurrent one"
	RuleUndone      = "a call is carried out and never undone"
	RuleTimeout     = "after a delay a timeout decides the outcome"
	RuleEvent       = "after a delay an event is missed"
	RuleResponse    = "the response to a call is lost after the call was carried out"
	RuleCancel      = "after a delay a child ends before it is cancelled"
	RuleFaster      = "after a delay another step comes first"
	RuleClock       = "the outcome depends on the clock"
)

// Finding is a kind of failure, with the smallest run found that shows it.
type Finding struct {
	Class Class
	sim.Violation
	Companion string // the simulator's own workflow that failed; "" for the document

	Task      string          // the task concerned, or two tasks separated by a space, or ""
	Document  *dsl.Definition // the document that contains the tasks
	Runs      int             // number of runs with this failure
	FaultFree int             // number of these runs without faults
	Tasks     map[string]int  // number of these runs by task
	Seen      Scenario
	Small     Scenario
	Tried     int  // number of runs needed to shrink it
	Confirmed bool // the smaller run fails in the same way
	Timeline  []TimelineEntry
	Orders    *Orders       // of a race
	Differ    []Unequal     // differences from the usual outcome, including mock state
	Calls     []EffectCount // calls whose number differs from the usual outcome
	Status    [2]string     // usual and in this run

	signature string
}

// failure is a failure of one run.
type failure struct {
	Class Class
	sim.Violation
	task string
	in   string // the execution that contains the task; "" means Execution
}

// failed returns a failure of an execution; format and args describe it.
func failed(class Class, rule, execution, task, format string, args ...any) *failure {
	return &failure{Class: class, Violation: sim.Violation{Rule: rule, Execution: execution, Detail: fmt.Sprintf(format, args...)}, task: task}
}

// signature is the same for all failures of one finding.
func (f failure) signature() string {
	if f.Class == Late {
		return string(f.Class) + " " + f.Rule
	}
	return string(f.Class) + " " + f.Rule + " " + f.task
}
