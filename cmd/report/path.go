package report

import (
	"slices"
	"strings"

	"flunq.io/flunq/cmd/graph"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// path counts how many times the tasks of a workflow ran and its edges were taken.
type path struct {
	graph *graph.Graph
	def   *dsl.Definition
	nodes map[string]*tally // by node
	edges []int             // by index in the graph
	out   map[string][]int  // edges by source
}

// tally counts the runs of a task by result.
type tally struct {
	runs, skipped, cancelled, open int

	failed map[string]bool // iterations whose last attempt failed
}

// times returns how many runs there were.
func (t *tally) times() int {
	if t == nil {
		return 0
	}
	return t.runs
}

// state returns the state that determines the colour of a node.
func (t *tally) state() state {
	switch {
	case t == nil || t.runs == 0 && t.skipped == 0:
		return "never"
	case t.runs == 0:
		return stateSkipped
	case len(t.failed) > 0:
		return stateFailed
	case t.open > 0:
		return stateOpen
	case t.cancelled == t.runs:
		return stateCancelled
	default:
		return stateDone
	}
}

// pathOf counts the runs of a document.
func (r *Recording) pathOf(d *document) *path {
	g := graph.Of(d.def)
	p := &path{graph: g, def: d.def, nodes: map[string]*tally{}, edges: make([]int, len(g.Edges)), out: map[string][]int{}}
	for i, e := range g.Edges {
		p.out[e.From] = append(p.out[e.From], i)
	}
	for _, x := range r.runs {
		if x.doc != d {
			continue
		}
		if x.Kind == "workflow" && x.Ref == "" {
			p.execution(x)
		} else {
			p.take(x)
		}
	}
	return p
}

func (p *path) tally(id string) *tally {
	t := p.nodes[id]
	if t == nil {
		t = &tally{failed: map[string]bool{}}
		p.nodes[id] = t
	}
	return t
}

func (p *path) execution(x *run) {
	p.tally("start").runs++
	p.all("start")
	switch x.status() {
	case stateDone:
		p.tally("end").runs++
	case stateFailed:
		f := p.tally("faulted")
		f.runs++
		f.failed[x.execution] = true
	default:
	}
}

// every adds n to the counts of the edges from a node that pass a test.
func (p *path) every(from string, test func(graph.Edge) bool, n int) {
	for _, i := range p.out[from] {
		if test(p.graph.Edges[i]) {
			p.edges[i] += n
		}
	}
}

// all counts each edge from a node once.
func (p *path) all(from string) { p.every(from, func(graph.Edge) bool { return true }, 1) }

// take counts a run of a task and the edges that it took.
func (p *path) take(x *run) {
	ref := x.Ref
	t := p.tally(ref)
	condition := ref + "#if"
	if x.status() == stateSkipped {
		t.skipped++
		p.tally(condition).runs++
		p.every(condition, func(e graph.Edge) bool { return e.Label == "no" }, 1)
		return
	}
	t.runs++
	if _, ok := p.out[condition]; ok {
		p.tally(condition).runs++
		p.every(condition, func(e graph.Edge) bool { return e.Label == "yes" }, 1)
	}
	switch iteration := key(x.execution, x.Iteration); x.status() {
	case stateFailed:
		t.failed[iteration] = true
	case stateDone:
		delete(t.failed, iteration) // by an earlier attempt
	case stateOpen:
		delete(t.failed, iteration)
		t.open++
	case stateCancelled:
		t.cancelled++
	default:
	}
	p.leave(x)
}

// leave counts the edges from a task and into the tasks inside it.
func (p *path) leave(x *run) {
	switch x.Kind {
	case "switch":
		p.choose(x)
	case "for", "listen":
		p.loop(x)
	case "fork":
		p.fork(x)
	case "try":
		p.attempts(x)
	case "raise":
		p.every(x.Ref, func(e graph.Edge) bool { return e.Kind == "error" && x.status() == stateFailed }, 1)
	default:
		if x.status() == stateDone {
			p.all(x.Ref)
		}
	}
}

// loop counts the iterations of a loop and its end.
func (p *path) loop(x *run) {
	turns := map[string]bool{}
	for _, child := range x.children {
		turns[child.iterationLabel()] = true
	}
	each := func(e graph.Edge) bool { return strings.HasPrefix(e.Label, "each") }
	p.every(x.Ref, each, len(turns))
	if x.status() == stateDone {
		p.every(x.Ref, func(e graph.Edge) bool { return !each(e) }, 1)
	}
}

// fork counts the branches that began and the join.
func (p *path) fork(x *run) {
	begun := map[string]bool{}
	for _, child := range x.children {
		begun[child.Ref] = true
	}
	p.every(x.Ref, func(e graph.Edge) bool {
		for ref := range begun {
			if rest, is := strings.CutPrefix(e.To, ref); is && (rest == "" || rest[0] == '/' || rest[0] == '#') {
				return true
			}
		}
		return false
	}, 1)
	if join := x.Ref + "#join"; x.status() == stateDone {
		p.tally(join).runs++
		p.all(join)
	}
}

// choose counts the edge that a switch took: the first edge that leads to its target.
func (p *path) choose(x *run) {
	if x.status() != stateDone {
		return
	}
	task := p.def.Task(x.Ref)
	if task == nil {
		return
	}
	for _, c := range task.Switch {
		if c.Then != x.then {
			continue
		}
		for _, i := range p.out[x.Ref] {
			if label := p.graph.Edges[i].Label; label == c.Name+" (default)" || strings.HasPrefix(label, c.Name+": ") {
				p.edges[i]++
				return
			}
		}
	}
	p.every(x.Ref, func(e graph.Edge) bool { return e.Label == "otherwise" }, 1)
}

// attempts counts the attempts of a try and the errors that it caught.
func (p *path) attempts(x *run) {
	ref := x.Ref
	tried := map[string]bool{}
	caughtOnce := false
	for _, child := range x.children {
		if caught(ref, child.Ref) {
			caughtOnce = true
		} else {
			tried[child.retry()] = true
		}
	}
	retries := 0
	for _, t := range x.Timers {
		if t.Kind == event.RetryTimer {
			retries++
		}
	}
	p.every(ref, func(e graph.Edge) bool { return e.Kind == "next" }, len(tried))
	errors := retries
	if caughtOnce || x.status() == stateDone && x.lastFailed() {
		errors++
	}
	p.every(ref, func(e graph.Edge) bool { return e.Kind == "error" }, errors)
	handler := ref + "#catch"
	p.tally(handler).runs += errors
	p.every(handler, func(e graph.Edge) bool { return e.Kind == "retry" }, retries)
	if errors > retries {
		p.every(handler, func(e graph.Edge) bool { return e.Kind != "retry" }, 1)
	}
}

// lastFailed reports whether the run inside a try that ended last has failed.
func (r *run) lastFailed() bool {
	for _, child := range slices.Backward(r.children) {
		if !child.open() {
			return child.status() == stateFailed
		}
	}
	return false
}

// caught reports whether a task is part of the catch of a try.
func caught(try, ref string) bool { return strings.HasPrefix(ref, try+"/catch/") }
