package spec

import (
	"strconv"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
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
	root   *yaml3.Node // nil: only the positions of tasks are known
	points []*Point
	index  map[key]*Point
}

func newSurvey(def *dsl.Definition) *pointList {
	s := &pointList{def: def, index: map[key]*Point{}}
	var doc yaml3.Node
	if yaml3.Unmarshal(def.Source, &doc) == nil && len(doc.Content) == 1 {
		s.root = doc.Content[0]
	}
	if def.Timeout != nil {
		s.add(timeoutPoint, "", "", "the workflow times out")
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
		if strings.HasPrefix(ref, "/use/extensions/") {
			continue // extensions are not executed
		}
		kind := taskPoint
		if branches[ref] {
			kind = branchPoint
		}
		s.add(kind, ref, "", kind+" "+t.Name)
		s.task(ref, t)
	}
	return s
}

// task lists the points of a task, except the task itself.
func (s *pointList) task(ref string, t *dsl.Task) {
	if t.If != nil {
		s.add(ifTrue, ref, "", "if of "+t.Name+" is true")
		s.add(ifFalse, ref, "", "if of "+t.Name+" is false")
	}
	s.cases(ref, t)
	if t.Try != nil {
		s.add(catchPoint, ref, "", "catch of "+t.Name)
		s.retry(ref, t)
	}
	if t.Timeout != nil {
		s.add(timeoutPoint, ref, "", t.Name+" times out")
	}
	if t.Listen != nil {
		s.add(listenPoint, ref, "", t.Name+" receives its events")
	}
}

// cases lists the cases of a switch, and "no case" if there is no default.
func (s *pointList) cases(ref string, t *dsl.Task) {
	hasDefault := false
	for _, c := range t.Switch {
		name := "case " + c.Name + " of " + t.Name
		if c.When == nil {
			name, hasDefault = "default "+c.Name+" of "+t.Name, true
		}
		s.add(casePoint, ref, c.Name, name)
	}
	if len(t.Switch) > 0 && !hasDefault {
		s.add(noCase, ref, "", "no case of "+t.Name+" matches")
	}
}

// retry lists the retry of a try and its timeouts.
func (s *pointList) retry(ref string, t *dsl.Task) {
	r := t.Try.Catch.Retry
	if r == nil {
		return
	}
	s.add(retryPoint, ref, "", "retry of "+t.Name)
	if r.AttemptDuration != nil {
		s.add(attemptLimit, ref, "", "an attempt of "+t.Name+" times out")
	}
	if r.Duration != nil {
		s.add(overallLimit, ref, "", "all attempts of "+t.Name+" together time out")
	}
}

func (s *pointList) add(kind, ref, name, words string) {
	p := &Point{Kind: kind, Name: words, Ref: ref}
	s.find(p, name)
	s.points = append(s.points, p)
	s.index[key{kind, ref, name}] = p
}

func (s *pointList) hit(kind, ref, name string) {
	if p := s.index[key{kind, ref, name}]; p != nil {
		p.Hits++
	}
}

// find sets the position of a point.
func (s *pointList) find(p *Point, name string) {
	p.Line, p.Col = 1, 1
	if t := s.def.Task(p.Ref); t != nil {
		p.Line, p.Col, p.Last = t.Pos.Line, t.Pos.Column, t.Pos.Line
	}
	if s.root == nil {
		return
	}
	at, value := resolve(s.root, p.Ref)
	for _, step := range pathTo(p.Kind, name) {
		if value == nil {
			return
		}
		if inner, v := memberOf(value, step); inner != nil {
			at, value = inner, v
			continue
		}
		at, value = item(value, step)
	}
	if at != nil && value != nil {
		p.Line, p.Col, p.Last = at.Line, at.Column, lastLine(value)
	}
}

// pathTo returns the path from a task to a part of it.
func pathTo(kind, name string) []string {
	switch kind {
	case ifTrue, ifFalse:
		return []string{"if"}
	case casePoint:
		return []string{"switch", name}
	case noCase:
		return []string{"switch"}
	case catchPoint:
		return []string{"catch"}
	case retryPoint, attemptLimit, overallLimit:
		return []string{"catch", "retry"}
	case timeoutPoint:
		return []string{"timeout"}
	case listenPoint:
		return []string{"listen"}
	default:
		return nil
	}
}

// item finds a named member among the items of a list.
func item(n *yaml3.Node, name string) (at, value *yaml3.Node) {
	if n.Kind != yaml3.SequenceNode {
		return nil, nil
	}
	for _, one := range n.Content {
		if at, value = memberOf(one, name); at != nil {
			return at, value
		}
	}
	return nil, nil
}

// resolve follows a JSON pointer to a value and its key, if it has one.
func resolve(n *yaml3.Node, pointer string) (at, value *yaml3.Node) {
	value = n
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		if value != nil && value.Kind == yaml3.AliasNode {
			value = value.Alias
		}
		switch {
		case value == nil:
			return nil, nil
		case value.Kind == yaml3.SequenceNode:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(value.Content) {
				return nil, nil
			}
			at, value = nil, value.Content[i]
		default:
			at, value = memberOf(value, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
	}
	return at, value
}

func lastLine(n *yaml3.Node) int {
	last := n.Line
	if n.Style&(yaml3.LiteralStyle|yaml3.FoldedStyle) != 0 {
		last += strings.Count(strings.TrimRight(n.Value, "\n"), "\n") + 1
	}
	for _, child := range n.Content {
		last = max(last, lastLine(child))
	}
	return last
}
