package decide

import (
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// forkState is the progress of a fork's branches, in document order.
type forkState struct {
	Base     Data   `json:"base"`     // $context at the start of the branches
	Outputs  []Data `json:"outputs"`  // outputs of completed branches
	Contexts []Data `json:"contexts"` // contexts of completed branches
	Done     []bool `json:"done"`
	Left     int    `json:"left"`
}

// beginFork starts all branches, each with its own copy of $context.
func (m *machine) beginFork(n *Node) {
	branches := n.task.Fork.Branches
	if len(branches) == 0 {
		m.complete(n, []any{}, "")
		return
	}
	n.Fork = &forkState{
		Base:     Data{m.contextOf(n)},
		Outputs:  make([]Data, len(branches)),
		Contexts: make([]Data, len(branches)),
		Done:     make([]bool, len(branches)),
		Left:     len(branches),
	}
	for i, t := range branches {
		m.enqueue(n, func() {
			if m.begin(n, t, n.Input.V) {
				m.branchOver(n, i, n.Input.V, n.Fork.Base.V, dsl.Continue)
			}
		})
	}
}

// branchOf returns the index of a branch.
func (n *Node) branchOf(branch *Node) int {
	return n.task.Fork.Branches.Find(branch.task.Name)
}

// branchOver records the output of a branch, and ends the fork with the last one.
func (m *machine) branchOver(n *Node, i int, out, context any, directive string) {
	f := n.Fork
	f.Outputs[i], f.Contexts[i], f.Done[i] = Data{out}, Data{context}, true
	f.Left--
	switch {
	case n.task.Fork.Compete:
		m.dropChildren(n)
		m.setContext(n, context)
		if directive != dsl.End { // any other directive concerns only the branch
			directive = ""
		}
		m.complete(n, out, directive)
	case directive == dsl.End:
		m.dropChildren(n)
		m.join(n)
		m.complete(n, values(f.Outputs), dsl.End)
	case f.Left == 0:
		m.join(n)
		m.complete(n, values(f.Outputs), "")
	}
}

// branchFailed ends the fork, unless branches compete and another one is still running.
func (m *machine) branchFailed(n, branch *Node, p *event.Problem) {
	n.Fork.Done[n.branchOf(branch)] = true
	n.Fork.Left--
	if n.task.Fork.Compete && n.Fork.Left > 0 {
		return
	}
	m.propagate(n, p)
}

// join merges the branches' changes of $context, in document order.
func (ev *evaluator) join(n *Node) {
	merged := ev.contextOf(n)
	for i, done := range n.Fork.Done {
		if done {
			merged = rebase(merged, n.Fork.Base.V, n.Fork.Contexts[i].V)
		}
	}
	ev.setContext(n, merged)
}

// rebase applies the changes between base and changed to merged, member by member.
func rebase(merged, base, changed any) any {
	if canonical.Equal(base, changed) {
		return merged
	}
	to, ok1 := merged.(map[string]any)
	from, ok2 := changed.(map[string]any)
	if !ok1 || !ok2 {
		return changed
	}
	before, _ := base.(map[string]any) // a base that is no object has no members
	out := make(map[string]any, len(to)+len(from))
	for name, value := range to {
		_, kept := from[name]
		if _, had := before[name]; kept || !had {
			out[name] = value
		}
	}
	for name, value := range from {
		if old, had := before[name]; !had || !canonical.Equal(old, value) {
			out[name] = value
		}
	}
	return out
}
