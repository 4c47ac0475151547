package decide

// machine performs one transition of an execution: it begins, completes and fails tasks, runs
// the steps that follow, and collects the effects in a Decision.
type machine struct {
	evaluator

	d           *Decision
	steps       []pendingStep
	nextStep    int    // index of the next step to run; all steps before it have run
	retrySuffix string // marks the next run to start as a retried one
}

func newMachine(s *State, env *Env, d *Decision) *machine {
	return &machine{evaluator: evaluator{s, env}, d: d}
}

// pendingStep is a step to run for a node, unless the node ends first.
type pendingStep struct {
	node *Node
	run  func()
}

// enqueue adds a step to the queue. Queued steps turn loops of tasks into iteration
// instead of recursion.
func (m *machine) enqueue(n *Node, step func()) { m.steps = append(m.steps, pendingStep{n, step}) }

func (m *machine) run() {
	for m.nextStep < len(m.steps) && !m.Status.Ended() {
		next := m.steps[m.nextStep]
		m.steps[m.nextStep] = pendingStep{}
		if m.nextStep++; m.nextStep == len(m.steps) {
			m.steps, m.nextStep = m.steps[:0], 0
		}
		if !next.node.closed {
			next.run()
		}
	}
}
