package spec

import (
	"bytes"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
)

// Point is a part of a document that a run may reach.
type Point struct {
	Kind string `json:"kind"` // such as task, case, catch
	Name string `json:"name"` // for users
	Ref  string `json:"task"` // reference of the task; "" for the workflow itself
	Line int    `json:"line"`
	Col  int    `json:"column"`
	Last int    `json:"-"` // last line
	Hits int    `json:"hits"`
}

// The kinds of points. A branch is a direct child of a fork.
const (
	taskPoint    = "task"
	branchPoint  = "branch"
	ifTrue       = "if"
	ifFalse      = "skip"
	casePoint    = "case"
	noCase       = "no case"
	catchPoint   = "catch"
	retryPoint   = "retry"
	timeoutPoint = "timeout"
	attemptLimit = "attempt timeout"
	overallLimit = "retry timeout"
	listenPoint  = "event"
)

// key identifies a point by kind, task, and name of a case.
type key struct{ kind, ref, name string }

// pointList lists the points of a document in order.
type pointList struct {
	def    *dsl.Definition
	root   *yaml.Node
	points []*Point
	index  map[key]*Point
}

func newPointList(def *dsl.Definition) *pointList {
	root := yaml.Read(yaml.NewCollector(""), bytes.TrimPrefix(def.Source, []byte("\ufeff")))
	s := &pointList{def: def, root: root, index: map[key]*Point{}}
	if def.Timeout != nil {
		s.add(timeoutPoint, "", "", "the workflow times out", "timeout")
	}
	branches := map[string]bool{}
	for _, t := range def.Tasks() {
		if t.Fork != nil {
			for _, b := range t.Fork.Branches {
				branches[b.Ref] = true
			}
		}
	}
	for ref, t := range def.Tasks() {
		switch {
		case strings.HasPrefix(ref, "/use/extensions/"): // extensions are not executed
			continue
		case branches[ref]:
			s.add(branchPoint, ref, "", "branch "+t.Name)
		default:
			s.add(taskPoint, ref, "", "task "+t.Name)
		}
		s.task(ref, t)
	}
	return s
}

// task lists the points of a task, except the task itself.
func (s *pointList) task(ref string, t *dsl.Task) {
	if t.If != nil {
		s.add(ifTrue, ref, "", "if of "+t.Name+" is true", "if")
		s.add(ifFalse, ref, "", "if of "+t.Name+" is false", "if")
	}
	hasDefault := false
	for _, c := range t.Switch {
		words := "case "
		if c.When == nil {
			words, hasDefault = "default ", true
		}
		s.add(casePoint, ref, c.Name, words+c.Name+" of "+t.Name, "switch", c.Name)
	}
	if len(t.Switch) > 0 && !hasDefault {
		s.add(noCase, ref, "", "no case of "+t.Name+" matches", "switch")
	}
	if t.Try != nil {
		s.add(catchPoint, ref, "", "catch of "+t.Name, "catch")
	}
	if t.Try != nil && t.Try.Catch.Retry != nil {
		s.add(retryPoint, ref, "", "retry of "+t.Name, "catch", "retry")
		if t.Try.Catch.Retry.AttemptDuration != nil {
			s.add(attemptLimit, ref, "", "an attempt of "+t.Name+" times out", "catch", "retry")
		}
		if t.Try.Catch.Retry.Duration != nil {
			s.add(overallLimit, ref, "", "all attempts of "+t.Name+" together time out", "catch", "retry")
		}
	}
	if t.Timeout != nil {
		s.add(timeoutPoint, ref, "", t.Name+" times out", "timeout")
	}
	if t.Listen != nil {
		s.add(listenPoint, ref, "", t.Name+" receives its events", "listen")
	}
}

// add adds a point. Its position is that of the last key on the path from its task that the
// document has.
func (s *pointList) add(kind, ref, name, words string, path ...string) {
	p := &Point{Kind: kind, Name: words, Ref: ref, Line: 1, Col: 1}
	s.points = append(s.points, p)
	s.index[key{kind, ref, name}] = p
	if ref != "" {
		path = append(slices.Collect(yaml.Segments(ref)), path...)
	}
	n := s.root
	for _, segment := range path {
		at, next := n.Step(segment)
		for i := 0; next == nil && n != nil && i < len(n.Items); i++ { // a list of cases
			at, next = n.Items[i].Step(segment)
		}
		if next == nil {
			return
		}
		p.Line, p.Col, p.Last, n = at.Line, at.Column, lastLine(next), next
	}
}

func (s *pointList) hit(kind, ref, name string) {
	if p := s.index[key{kind, ref, name}]; p != nil {
		p.Hits++
	}
}

func lastLine(n *yaml.Node) int {
	last := n.Line
	if text, ok := n.Data.(string); ok && n.Style == yaml.Folded {
		last += strings.Count(strings.TrimRight(text, "\n"), "\n") + 1
	}
	for _, item := range n.Items {
		last = max(last, lastLine(item))
	}
	for _, f := range n.Fields {
		last = max(last, f.Pos.Line, lastLine(f.Value))
	}
	return last
}
