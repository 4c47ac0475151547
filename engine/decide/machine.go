package decide

import "flunq.io/flunq/engine/expr"

// machine performs one transition of an execution: it begins, completes and fails tasks,
// and runs the steps that follow. A State reuses one machine for all its transitions.
//
// It consists of layers, each of which calls only those below it: the evaluator of
// expressions, the transition that collects the decisions, the listener, the closer that
// ends active tasks, and the machine itself.
type machine struct {
	closer

	steps       []pendingStep
	nextStep    int    // index of the next step to run; all steps before it have run
	retrySuffix string // marks the next run to start as a retried one
}

func newMachine(s *State, env *Env, d *Decision) *machine {
	m := new(machine)
	m.State, m.env, m.d = s, env, d
	return m
}

// machine prepares the State's machine for a transition.
func (s *State) machine(env *Env, d *Decision) *machine {
	if s.reused == nil {
		s.reused = newMachine(s, nil, nil)
	}
	m := s.reused
	m.env, m.d = env, d
	return m
}

// reset ends a transition and drops all references to it.
func (m *machine) reset() {
	m.env, m.d, m.retrySuffix = nil, nil, ""
	clear(m.steps) // steps remain if the execution has ended
	m.steps, m.nextStep = m.steps[:0], 0
	m.computeView.n, m.computeView.Dot = nil, nil
}

// pendingStep is a step to run for a node, unless the node ends first.
type pendingStep struct {
	node *Node
	step func(*machine, pendingStep)

	// Arguments of the usual steps.
	child *Node
	data  any
	then  string
}

// enqueue adds a step to the queue. Queued steps turn loops of tasks into iteration
// instead of recursion.
func (m *machine) enqueue(a pendingStep) { m.steps = append(m.steps, a) }

// enqueueFunc adds a step as a closure, which costs an allocation: it is for rare steps.
func (m *machine) enqueueFunc(n *Node, step func()) {
	m.enqueue(pendingStep{node: n, step: func(*machine, pendingStep) { step() }})
}

func (m *machine) run() {
	for m.nextStep < len(m.steps) && !m.Status.Ended() {
		next := m.steps[m.nextStep]
		m.steps[m.nextStep] = pendingStep{}
		if m.nextStep++; m.nextStep == len(m.steps) {
			m.steps, m.nextStep = m.steps[:0], 0
		}
		if !next.node.closed {
			next.step(m, next)
		}
	}
}

// The usual steps, as functions that need no closure.
func entering(m *machine, a pendingStep)   { m.enter(a.node, a.data) }
func iterating(m *machine, a pendingStep)  { m.iterate(a.node, a.data) }
func childEnded(m *machine, a pendingStep) { m.childDone(a.node, a.child, a.data, a.then) }

// ownScope returns the scope of a task that Advance computes. It is valid until the next
// call.
func (ev *evaluator) ownScope(n *Node) *expr.Scope {
	if ev.computeView.Var == nil {
		ev.computeView.ev = ev
		ev.computeView.Var = ev.computeView.value
	}
	ev.computeView.n, ev.computeView.Dot, ev.computeView.Now = n, n.Input.V, ev.Now
	return &ev.computeView.Scope
}
