package spec

import (
	"slices"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim/mock"
)

// Expect holds the expectations of a case. Missing members are not checked, except that the
// workflow must complete unless an error is expected.
type Expect struct {
	node     *yaml3.Node // nil: nothing is expected
	status   *yaml3.Node
	output   *part
	problem  *part
	elapsed  []bound
	requests []request
	hasNone  bool // an empty list of requests: no request may be made
	events   *part

	elapsedAt, tasks, requestsAt *yaml3.Node
}

// request is an expected request.
type request struct {
	node, timesAt *yaml3.Node
	match         mock.Match
	times         []bound // empty: at least once
}

// Status returns the expected status.
func (e Expect) Status() decide.Status {
	switch {
	case e.status != nil:
		return decide.Status(e.status.Value)
	case e.problem != nil:
		return decide.Faulted
	default:
		return decide.Completed
	}
}

func statuses() []string {
	return []string{string(decide.Completed), string(decide.Faulted), string(decide.Cancelled), string(decide.Waiting)}
}

// expect reads the expectations; n may be nil.
func (r *suiteReader) expect(n *yaml3.Node) Expect {
	var e Expect
	if n == nil {
		return e
	}
	e.node = n
	r.Object(n, "expect", yaml.Fields{
		"status": func(n *yaml3.Node) {
			e.status = n
			if !slices.Contains(statuses(), n.Value) {
				r.Errorf(n, "status is %s, %s", yaml.Spelled(n), hint(n.Value, statuses()))
			}
		},
		"output": func(n *yaml3.Node) { e.output = r.partOrFile(n) },
		"error":  func(n *yaml3.Node) { e.problem = r.problem(n) },
		"elapsed": func(n *yaml3.Node) {
			e.elapsed, e.elapsedAt = durations(r.Reader, n, "elapsed"), n
		},
		"tasks": func(n *yaml3.Node) {
			e.tasks = n
			r.Each("tasks", func(n *yaml3.Node) { r.task(n) })(n)
		},
		"requests": func(n *yaml3.Node) {
			e.requestsAt, e.hasNone = n, len(n.Content) == 0
			r.Each("requests", func(n *yaml3.Node) { e.requests = append(e.requests, r.request(n)) })(n)
		},
		"events": func(n *yaml3.Node) {
			if e.events = r.partOrFile(n); !e.events.isList() {
				r.Errorf(n, "events is %s, want a list", yaml.Spelled(n))
			}
		},
	}, nil)
	switch status := e.Status(); {
	case e.output != nil && e.problem != nil:
		r.Errorf(n, "expect has both an output and an error, but a run has only one of them")
	case !slices.Contains(statuses(), string(status)): // reported above
	case e.output != nil && status != decide.Completed:
		r.Errorf(e.status, "status is %s, but only a completed run has an output", status)
	case e.problem != nil && status != decide.Faulted:
		r.Errorf(e.status, "status is %s, but only a faulted run has an error", status)
	}
	return e
}

func hint(word string, all []string) string {
	if guess := spelling.Word(word, all); guess != "" {
		return "did you mean \"" + guess + "\"?"
	}
	return "want one of " + strings.Join(all, ", ")
}

// partOrFile reads a part, or the file that "@FILE" names.
func (r *suiteReader) partOrFile(n *yaml3.Node) *part {
	here := partReader{r.Reader, r.suite.File}
	name, ok := fileName(n)
	if !ok {
		return here.part(n)
	}
	t := r.dataFile(n, name)
	if t == nil || t.root == nil {
		return &part{file: r.suite.File, node: n}
	}
	if t.part == nil {
		t.part = partReader{t.reader, t.file}.part(t.root)
		t.err = t.reader.Err()
	}
	if t.err != nil {
		r.named(n, t.err)
	}
	r.suite.dataFiles[t.file] = t
	return t.part
}

// problem reads an error: any part of it, or only its type.
func (r *suiteReader) problem(n *yaml3.Node) *part {
	p := r.partOrFile(n)
	if p.program != nil {
		return p
	}
	if !p.isMap() {
		if p.isList() {
			r.Errorf(n, "error is a list, want a type such as timeout, or a map")
		}
		return p
	}
	members := []string{"type", "status", "title", "detail", "instance"}
	for _, f := range p.fields {
		if !slices.Contains(members, f.key.Value) {
			r.Errorf(f.key, "error has no member %q, %s", f.key.Value, hint(f.key.Value, members))
		}
	}
	return p
}

// task checks that the workflow has a task.
func (r *suiteReader) task(n *yaml3.Node) {
	name := r.Text(n, "task")
	if r.suite.Workflow == nil || name == "" {
		return
	}
	var names []string
	for ref, t := range r.suite.Workflow.Definition.Tasks() {
		if name == ref || name == t.Name {
			return
		}
		names = append(names, t.Name)
	}
	if strings.HasPrefix(name, "/") {
		r.Errorf(n, "no task %s in %s", name, r.suite.Workflow.File)
		return
	}
	r.Errorf(n, "no task %q in %s, %s", name, r.suite.Workflow.File, hint(name, names))
}

func (r *suiteReader) request(n *yaml3.Node) request {
	q := request{node: n}
	fields := mock.MatchFields(r.Reader, &q.match)
	fields["times"] = func(n *yaml3.Node) { q.times, q.timesAt = counts(r.Reader, n, "times"), n }
	r.Object(n, "a request", fields, nil)
	return q
}

// IsEmpty reports whether nothing is expected.
func (e Expect) IsEmpty() bool { return e.node == nil }
