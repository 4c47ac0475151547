package decide

import "flunq.io/flunq/engine/expr"

// machine is a State in the middle of one transition. It serves all transitions of
// the State, one after the other.
type machine struct {
	*State

	env         *Env
	d           *Decision
	agenda      []agendum
	ahead       int    // of the agenda; all before it is done
	retrySuffix string // marks the run that begins next as one that is retried
	own         view   // of the task that is computed
	ids         serials
}

// machine begins a transition.
func (s *State) machine(env *Env, d *Decision) *machine {
	if s.idle == nil {
		s.idle = &machine{State: s}
	}
	m := s.idle
	m.env, m.d = env, d
	return m
}

// rest ends a transition: nothing of it is kept.
func (m *machine) rest() {
	m.env, m.d, m.retrySuffix = nil, nil, ""
	m.agenda, m.ahead = m.agenda[:0], 0
	m.own.n, m.own.Dot = nil, nil
}

// agendum is a step to take for a node, unless the node ends before.
type agendum struct {
	node *Node
	step func(*machine, agendum)

	// What the step is about, if it is one of the usual ones.
	child *Node
	data  any
	then  string
}

// soon puts off a step, so that loops of tasks do not become recursion.
func (m *machine) soon(a agendum) { m.agenda = append(m.agenda, a) }

// later puts off a step that is seldom taken.
func (m *machine) later(n *Node, step func()) {
	m.soon(agendum{node: n, step: func(*machine, agendum) { step() }})
}

func (m *machine) run() {
	for m.ahead < len(m.agenda) && !m.Status.Ended() {
		next := m.agenda[m.ahead]
		m.agenda[m.ahead] = agendum{}
		if m.ahead++; m.ahead == len(m.agenda) {
			m.agenda, m.ahead = m.agenda[:0], 0
		}
		if !next.node.closed {
			next.step(m, next)
		}
	}
}

// The usual steps.
func entering(m *machine, a agendum)   { m.enter(a.node, a.data) }
func turning(m *machine, a agendum)    { m.turn(a.node, a.data) }
func childEnded(m *machine, a agendum) { m.childDone(a.node, a.child, a.data, a.then) }

// ownScope is the scope of a task that is computed, which lasts until the next one is.
func (m *machine) ownScope(n *Node) *expr.Scope {
	if m.own.Var == nil {
		m.own.m = m
		m.own.Var = m.own.value
	}
	m.own.n, m.own.Dot, m.own.Now = n, n.Input.V, m.Now
	return &m.own.Scope
}
