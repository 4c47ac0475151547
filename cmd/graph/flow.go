package graph

import (
	"cmp"
	"slices"

	"flunq.io/flunq/engine/dsl"
)

// builder builds the graph by following the flow through the tasks. An edge that leaves a
// task is open until its target is known.
type builder struct{ graph *Graph }

// openEdge is an edge without its target.
type openEdge struct{ from, label, kind string }

// exit is an open edge with the directive that names its target.
type exit struct {
	openEdge

	then string
}

// scope describes where a list of tasks appears.
type scope struct {
	group   string // the group of the tasks
	handler string // the node to which errors lead
}

func (b *builder) node(n Node) { b.graph.Nodes = append(b.graph.Nodes, n) }

func (b *builder) group(id, name, kind, parent string) {
	b.graph.Groups = append(b.graph.Groups, Group{ID: id, Kind: kind, Name: name, Parent: parent})
}

func (b *builder) connect(ends []openEdge, to string) {
	for _, e := range ends {
		b.graph.Edges = append(b.graph.Edges, Edge{From: e.from, To: to, Label: e.label, Kind: e.kind})
	}
}

// list adds consecutive tasks and returns the edges that leave the list.
func (b *builder) list(tasks dsl.TaskList, s scope) []openEdge {
	var open, left []openEdge
	for i, t := range tasks {
		if i > 0 {
			b.connect(open, entry(t))
			open = nil
		}
		for _, e := range b.task(t, s) {
			switch e.then {
			case "", dsl.Continue:
				open = append(open, e.openEdge)
			case dsl.Exit:
				left = append(left, e.openEdge)
			case dsl.End:
				b.connect([]openEdge{e.jump()}, endID)
			default:
				if at := tasks.Find(e.then); at >= 0 {
					b.connect([]openEdge{e.jump()}, entry(tasks[at]))
				}
			}
		}
	}
	return append(left, open...)
}

// jump returns the edge of a directive that names a task or ends the workflow.
func (e exit) jump() openEdge {
	if e.kind == next {
		e.kind = jump
	}
	return e.openEdge
}

// entry returns the first node of a task.
func entry(t *dsl.Task) string {
	if t.If != nil {
		return t.Ref + "#if"
	}
	return own(t)
}

// own returns the first node of a task after its condition.
func own(t *dsl.Task) string {
	if t.Kind == dsl.Do && len(t.Do) > 0 {
		return entry(t.Do[0])
	}
	return t.Ref
}

// task adds a task and returns the edges that leave it.
func (b *builder) task(t *dsl.Task, s scope) []exit {
	if t.If == nil {
		return b.body(t, s)
	}
	condition := t.Ref + "#if"
	b.node(Node{ID: condition, Kind: kindIf, Detail: t.If.Source(), Group: s.group, Line: t.Pos.Line})
	b.connect([]openEdge{{condition, "yes", caseOf}}, own(t))
	// The "then" of a skipped task does not apply: the flow continues with the next task.
	return append(b.body(t, s), exit{openEdge{condition, "no", caseOf}, dsl.Continue})
}

func (b *builder) body(t *dsl.Task, s scope) []exit {
	switch t.Kind {
	case dsl.Do:
		return b.do(t, s)
	case dsl.For:
		return b.loop(t, t.Do, "each", s)
	case dsl.Listen:
		if t.Listen.Foreach != nil {
			return b.loop(t, t.Listen.Foreach.Do, "each event", s)
		}
	case dsl.Fork:
		return b.fork(t, s)
	case dsl.Try:
		return b.try(t, s)
	case dsl.Switch:
		return b.cases(t, s)
	case dsl.Raise:
		b.step(t, s.group)
		b.connect([]openEdge{{t.Ref, "", onError}}, s.handler)
		return nil
	default:
	}
	b.step(t, s.group)
	return []exit{{openEdge{t.Ref, "", next}, t.Then}}
}

// step adds the node of a task.
func (b *builder) step(t *dsl.Task, group string) {
	b.node(Node{
		ID: t.Ref, Kind: string(t.Kind), Name: t.Name, Detail: Detail(t),
		Group: group, Line: t.Pos.Line, Unsupported: t.Unsupported != "",
	})
}

func (b *builder) do(t *dsl.Task, s scope) []exit {
	if len(t.Do) == 0 {
		b.step(t, s.group)
		return []exit{{openEdge{t.Ref, "", next}, t.Then}}
	}
	b.group(t.Ref, t.Name, string(t.Kind), s.group)
	return leave(b.list(t.Do, scope{t.Ref, s.handler}), t.Then)
}

// loop adds a task that repeats others.
func (b *builder) loop(t *dsl.Task, tasks dsl.TaskList, each string, s scope) []exit {
	b.group(t.Ref, t.Name, string(t.Kind), s.group)
	b.step(t, t.Ref)
	if len(tasks) > 0 {
		b.connect([]openEdge{{t.Ref, each, next}}, entry(tasks[0]))
		b.connect(b.list(tasks, scope{t.Ref, s.handler}), t.Ref)
	}
	return []exit{{openEdge{t.Ref, "done", next}, t.Then}}
}

func (b *builder) fork(t *dsl.Task, s scope) []exit {
	b.group(t.Ref, t.Name, string(t.Kind), s.group)
	b.step(t, t.Ref)
	join := Node{ID: t.Ref + "#join", Kind: kindJoin, Detail: "all done", Group: t.Ref}
	if t.Fork.Compete {
		join.Detail = "first wins"
	}
	handler := s.handler
	if t.Fork.Compete {
		handler = join.ID // a branch that fails loses
	}
	failing := 0
	for _, branch := range t.Fork.Branches {
		b.connect([]openEdge{{t.Ref, "", next}}, entry(branch))
		before := len(b.graph.Edges)
		b.connect(b.list(dsl.TaskList{branch}, scope{t.Ref, handler}), join.ID)
		if slices.ContainsFunc(b.graph.Edges[before:], func(e Edge) bool { return e.To == join.ID && e.Kind == onError }) {
			failing++
		}
	}
	b.node(join)
	if t.Fork.Compete && failing == len(t.Fork.Branches) {
		b.connect([]openEdge{{join.ID, "all fail", onError}}, s.handler)
	}
	return []exit{{openEdge{join.ID, "", next}, t.Then}}
}

// try adds the tasks of a try, its catch and the tasks of the catch.
func (b *builder) try(t *dsl.Task, s scope) []exit {
	b.group(t.Ref, t.Name, string(t.Kind), s.group)
	b.step(t, t.Ref)
	handler := t.Ref + "#catch"
	var out []exit
	if len(t.Try.Try) > 0 {
		b.connect([]openEdge{{t.Ref, "", next}}, entry(t.Try.Try[0]))
		out = leave(b.list(t.Try.Try, scope{t.Ref, handler}), t.Then)
	}
	b.connect([]openEdge{{t.Ref, "on error", onError}}, handler)
	b.node(Node{ID: handler, Kind: kindCatch, Detail: catchDetail(t.Try.Catch), Group: t.Ref})
	if t.Try.Catch.Retry != nil {
		b.connect([]openEdge{{handler, retryDetail(t.Try.Catch.Retry), retried}}, t.Ref)
	}
	then := cmp.Or(t.Try.Catch.Then, t.Then)
	if len(t.Try.Catch.Do) == 0 {
		return append(out, exit{openEdge{handler, "", next}, then})
	}
	handling := t.Ref + "/catch"
	b.group(handling, "catch", kindCatch, t.Ref)
	b.connect([]openEdge{{handler, "", next}}, entry(t.Try.Catch.Do[0]))
	return append(out, leave(b.list(t.Try.Catch.Do, scope{handling, s.handler}), then)...)
}

// cases adds a switch. If no case matches, the "then" of the task applies.
func (b *builder) cases(t *dsl.Task, s scope) []exit {
	b.step(t, s.group)
	var out []exit
	otherwise := true
	for _, c := range t.Switch {
		if c.When == nil {
			otherwise = false
		}
		out = append(out, exit{openEdge{t.Ref, caseLabel(c), caseOf}, c.Then})
	}
	if otherwise {
		out = append(out, exit{openEdge{t.Ref, "otherwise", caseOf}, t.Then})
	}
	return out
}

// leave returns the edges that leave a group as exits with its directive.
func leave(ends []openEdge, then string) []exit {
	out := make([]exit, len(ends))
	for i, e := range ends {
		out[i] = exit{e, then}
	}
	return out
}
