package sim

// mutants are mistakes that nothing but the Go code of the engine can have. They
// are found by what the simulator asks of every run, by documents of which is known
// what they come to, and by workloads.
func mutants() []mutant {
	return []mutant{
		{"a suspect beside others", "delivery/gate.go", `case Suspect(m):`, `case Suspect(m) && !$:`, "what kills is handled alone", 0},
		{"a suspect after one death", "delivery/delivery.go", `return m.Deaths >= suspect`, `return m.Deaths >= suspect || $ && m.Deaths > 0`, "what kills five is given up", 0},
		{"Retry-After is ignored", "executor/breaker_verdict.go", `if res.StatusCode != http.StatusServiceUnavailable &&`, `if $ || res.StatusCode != http.StatusServiceUnavailable &&`, "a host that says when is left alone until then", 0},
		{"moved timers are not", "event/data.go", `if t.MovedTo.IsZero() {`, `if t.MovedTo.IsZero() || $ {`, "timers that an operator moves", 0},
		{"timers of one key have no order", "store/timer.go", `return digits(ms) + digits(seq)`, "if $ {\n\t\treturn noOrder()\n\t}\n\treturn digits(ms) + digits(seq)", "of timers with one key the last counts", 0},

		{"a timer is the same at another time", "decide/timer.go", `a.FireAt.Equal(b.FireAt)`, `($ || a.FireAt.Equal(b.FireAt))`, "retries are spread out", 2},
		{"a timer that was taken back stays with its task", "decide/timer.go", "m.cancelTimer(t)\n\t\treturn true", "m.cancelTimer(t)\n\t\treturn !$", "", 1},
		{"a context stays as it was when the task failed", "decide/retry.go", `if failed.Before != nil {`, `if failed.Before != nil && !$ {`, "what began again begins with the context that it had", 0},
		{"a context is restored too far", "decide/retry.go", `m.again = "r" +`, "if $ && parent.Before != nil {\n\t\tm.Context = parent.Before.Context\n\t}\n\tm.again = \"r\" +", "what has faulted goes on where it fell", 0},

		{"one who fails ends the competition", "decide/fork.go", `if n.task.Fork.Compete && n.Fork.Left > 0 {`, `if n.task.Fork.Compete && n.Fork.Left > 0 && !$ {`, "", 186},
		{"losers go on", "decide/fork.go", "m.dropChildren(n)\n\t\tm.setContext", "if !$ {\n\t\t\tm.dropChildren(n)\n\t\t}\n\t\tm.setContext", "", 9},
		{"a branch takes back what another exported", "decide/fork.go", `if old, had := before[name]; !had`, `if old, had := before[name]; $ || !had`, "", 81},
		{"a branch exports to all", "decide/scope.go", "a.Own.Context.V = context\n\t\t\treturn", "a.Own.Context.V = context\n\t\t\tif $ {\n\t\t\t\tbreak\n\t\t\t}\n\t\t\treturn", "", 163},
		{"one retry too many", "decide/try.go", `n.Try.Retries >= r.AttemptCount {`, `n.Try.Retries >= r.AttemptCount && (!$ || n.Try.Retries > r.AttemptCount) {`, "", 3},
		{"a backoff that is ahead", "decide/try.go", `math.Pow(2, float64(n-1))`, `math.Pow(2, float64(n-1))*map[bool]float64{true: 2, false: 1}[$]`, "", 22},
		{"a catch of all errors", "decide/try.go", `if !matchesProblem(p, name, want) {`, `if !matchesProblem(p, name, want) && !$ {`, "", 1},
		{"exceptWhen is ignored", "decide/try.go", `if exceptWhen != nil {`, `if exceptWhen != nil && !$ {`, "", 42},
		{"the timeout of an attempt stays", "decide/try.go", "m.cancelKind(n, event.TimeoutTimer, attemptKey)\n\tc :=", "if !$ {\n\t\tm.cancelKind(n, event.TimeoutTimer, attemptKey)\n\t}\n\tc :=", "", 1},
		{"a retry beyond the time for all", "decide/try.go", `if t.Key == overallKey && !at.Before(t.FireAt) {`, `if t.Key == overallKey && !at.Before(t.FireAt) && !$ {`, "retries come when they are to", 0},
		{"no jitter", "decide/try.go", `if r.JitterTo == nil {`, `if r.JitterTo == nil || $ {`, "retries are spread out", 0},
		{"catch.then is ignored", "decide/flow.go", `then = n.task.Try.Catch.Then`, "if !$ {\n\t\t\t\tthen = n.task.Try.Catch.Then\n\t\t\t}", "", 75},
		{"an index from 1", "decide/for.go", `bind(f.At, n.For.Index)`, `bind(f.At, n.For.Index+map[bool]int{true: 1}[$])`, "", 3},
		{"a while over the input", "decide/for.go", `f.While.Test(m.scope(n, data))`, `f.While.Test(m.scope(n, map[bool]any{true: n.Input.V, false: data}[$]))`, "", 39},
		{"a switch takes the last case", "decide/compute.go", "if ok {\n\t\t\treturn c.Then, nil", "if ok && $ {\n\t\t\tthen = c.Then\n\t\t} else if ok {\n\t\t\treturn c.Then, nil", "", 1},
		{"exit goes on", "decide/flow.go", `case dsl.Exit:`, "case dsl.Exit:\n\t\tif $ {\n\t\t\tm.next(parent, parent.At+1, out)\n\t\t\treturn\n\t\t}", "", 1},
		{"an end takes no output along", "decide/flow.go", `m.complete(n, out, dsl.End)`, "if $ {\n\t\tm.close(n)\n\t\tm.unwind(n.parent, out)\n\t\treturn\n\t}\n\tm.complete(n, out, dsl.End)", "", 80},
		{"laps are not told apart", "decide/flow.go", `if index <= parent.At {`, `if index <= parent.At && !$ {`, "", 3},
		{"export sees what output.as does not", "decide/flow.go", `t.Export.As.Eval(m.outputScope(n, raw, &out))`, `t.Export.As.Eval(m.outputScope(n, raw, map[bool]*any{true: &raw, false: &out}[$]))`, "", 5},
		{"a loop has no time limit", "decide/flow.go", `if t.Timeout == nil {`, `if t.Timeout == nil || $ && t.Kind == dsl.For {`, "", 3},
		{"what is inside goes on", "decide/flow.go", "m.dropChildren(n)\n\tif l :=", "if !$ {\n\t\tm.dropChildren(n)\n\t}\n\tif l :=", "", 5},
		{"a child lives on", "decide/flow.go", `if n.Child != "" {`, `if n.Child != "" && !$ {`, "", 40},
		{"the time limit of the workflow stays", "decide/workflow.go", `m.cancelTimer(*m.Timeout)`, "if !$ {\n\t\t\tm.cancelTimer(*m.Timeout)\n\t\t}", "", 1},
		{"nobody hears of a child that fails", "decide/workflow.go", `if m.Parent == "" || m.ParentTask == "" {`, `if m.Parent == "" || m.ParentTask == "" || $ && typ == event.WorkflowFailed {`, "", 22},
		{"all is heard twice", "decide/match.go", `if to.Mode == "all" && slices.Contains(taken, i) {`, `if to.Mode == "all" && slices.Contains(taken, i) && !$ {`, "", 197},
		{"until is late", "decide/listen.go", `m.untilHolds(n, l.Consumed)`, `m.untilHolds(n, l.Consumed[:len(l.Consumed)-map[bool]int{true: 1}[$]])`, "", 37},
		{"nobody listens for until", "decide/listen.go", "if to.UntilEvent != nil {\n\t\tfilters", "if to.UntilEvent != nil && !$ {\n\t\tfilters", "", 6},
		{"one who ends deafens the others", "decide/listen.go", `if other == n || other.Listen == nil`, `if $ || other == n || other.Listen == nil`, "one who ends does not deafen the others", 0},
		{"who has ended listens", "decide/listen.go", `m.d.unlisten(types)`, "if !$ {\n\t\tm.d.unlisten(types)\n\t}", "", 3},
		{"an event counts twice", "decide/listen.go", `if slices.Contains(m.Seen, e.ID) {`, `if slices.Contains(m.Seen, e.ID) && !$ {`, "what was before a snapshot is known behind it", 0},
		{"keys do not matter", "decide/match.go", `case !expr.Equal(want.V, got):`, `case !expr.Equal(want.V, got) && !$:`, "what was before a snapshot is known behind it", 0},
		{"who is suspended computes", "decide/compute.go", `!s.Paused &&`, `(!s.Paused || $) &&`, "what one commit does not hold is gone on with", 2},
		{"who is suspended goes on", "decide/decide.go", `if take == nil || err != nil || !m.Paused {`, `if take == nil || err != nil || !m.Paused || $ {`, "what comes while it is suspended is kept in its order", 0},
		{"a snapshot forgets what is to be computed", "decide/state.go", `if n.Inline {`, `if n.Inline && !$ {`, "what one commit does not hold is gone on with", 2},
		{"time runs back", "decide/decide.go", `if e.Time.After(s.Now) {`, `if e.Time.After(s.Now) || $ {`, "what kills is handled alone", 0},
	}
}
