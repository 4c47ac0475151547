package search

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// Once expects each call with a method ("" or * for any) to a URL (with * for one or more
// characters) to reach its service at most once per execution. made reports whether there was
// such a call in any run so far.
func Once(method, pattern string) (check Check, made func() bool) {
	var called atomic.Bool
	return func(t *sim.Trial) []sim.Violation {
		counts := map[sim.CallID]int{}
		tasks := map[sim.CallID]string{}
		for call, n := range t.CallCounts {
			if !matches(call, method, pattern) {
				continue
			}
			called.Store(true)
			task := call.Task
			call.Task = "" // any task may make it
			counts[call] += n
			tasks[call] = max(tasks[call], task)
		}
		var out []sim.Violation
		for _, call := range slices.SortedFunc(maps.Keys(counts), compareCalls) {
			if n := counts[call]; n > 1 {
				out = append(out, sim.Violation{
					Rule: "once: " + strings.TrimSpace(method+" "+pattern), Execution: call.Execution,
					Detail: fmt.Sprintf("%s %s reached the service %d times (task %s)", call.Method, call.URL, n, tasks[call]),
				})
			}
		}
		return out
	}, called.Load
}

func compareCalls(a, b sim.CallID) int {
	return cmp.Or(cmp.Compare(a.Execution, b.Execution), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Method, b.Method), cmp.Compare(a.URL, b.URL))
}

func matches(call sim.CallID, method, pattern string) bool {
	if method != "" && method != "*" && !strings.EqualFold(method, call.Method) {
		return false
	}
	u, err := url.Parse(call.URL)
	return err == nil && mock.MatchURL(pattern, u)
}

// Always expects an expression to be true for the output of every root execution. Its
// variables are $status, $error, $input, $requests (the calls that were carried out, including
// those of child executions) and $kept (the final state of mocks, by URL).
func Always(source string, p *expr.Program, input any) Check {
	return func(t *sim.Trial) []sim.Violation {
		var out []sim.Violation
		for _, end := range t.Ends {
			if end.Child() {
				continue
			}
			ok, err := p.Test(scopeOf(t, end, input))
			detail := fmt.Sprintf("it is %s with the output %s", end.Status, cmp.Or(string(end.Output), "(none)"))
			if err != nil {
				detail = fmt.Sprintf("%v; %s", err, detail)
			}
			if err != nil || !ok {
				out = append(out, sim.Violation{Rule: "expect: " + source, Execution: end.ID, Detail: detail})
			}
		}
		return out
	}
}

func scopeOf(t *sim.Trial, end sim.End, input any) *expr.Scope {
	output, err := canonical.Decode(end.Output)
	if err != nil {
		output = nil
	}
	return &expr.Scope{Dot: output, Now: sim.Epoch(), Var: func(name string) (any, error) {
		switch name {
		case "status":
			return string(end.Status), nil
		case "input":
			return input, nil
		case "requests":
			return requestsOf(t, end), nil
		case "kept":
			return keptBy(t, end)
		case "error":
			if end.Error == nil {
				return nil, nil
			}
			return canonical.Decode(event.Encode(end.Error))
		default:
			return nil, errors.New("no variable $" + name)
		}
	}}
}

// requestsOf returns the calls of an execution as an expression sees them.
func requestsOf(t *sim.Trial, end sim.End) []any {
	out := []any{}
	for _, c := range callsBelow(t, end.ID) {
		out = append(out, map[string]any{
			"method": c.Method, "url": c.URL, "body": canonical.DecodeOrText(c.Body), "status": c.Status,
			"task": event.ParseRun(c.Task).Ref, "execution": c.Execution, "key": c.Key,
		})
	}
	return out
}

// keptBy returns the state that mocks keep for an execution and for all executions.
func keptBy(t *sim.Trial, end sim.End) (any, error) {
	all := map[string]any{}
	maps.Copy(all, t.Shared)
	maps.Copy(all, end.Kept)
	return canonical.Decode(event.Encode(all))
}

// ExpectVariable reports whether an expectation can use a variable of this name.
func ExpectVariable(name string) bool {
	return slices.Contains([]string{"status", "error", "input", "requests", "kept"}, name)
}
