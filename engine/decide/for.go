package decide

import (
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr/canonical"
)

// forState is the progress of a loop.
type forState struct {
	Items Data `json:"items"` // value of for.in, a list
	Index int  `json:"index"`
}

// beginFor evaluates the list to loop over. Null counts as an empty list.
func (m *machine) beginFor(n *Node) error {
	in, err := n.task.For.In.Eval(m.scope(n, n.Input.V))
	if err != nil {
		return err
	}
	items, ok := in.([]any)
	if !ok && in != nil {
		return event.NewProblem(event.Expression, "for.in is "+excerpt.Of(canonical.Text(in), 60)+", want a list")
	}
	n.For = &forState{Items: Data{items}}
	m.enqueue(n, func() { m.iterate(n, n.Input.V) })
	return nil
}

// iterate starts the next iteration of a loop with the output of the previous one, or ends
// the loop.
func (m *machine) iterate(n *Node, data any) {
	f := n.task.For
	items, _ := n.For.Items.V.([]any) // a restored empty list is null
	if n.For.Index >= len(items) {
		m.complete(n, data, "")
		return
	}
	if n.Vars == nil {
		n.Vars = map[string]Data{}
	}
	n.Vars[f.Each], n.Vars[f.At] = Data{items[n.For.Index]}, Data{n.For.Index}
	if f.While != nil {
		ok, err := f.While.Test(m.innerScope(n, data))
		if err != nil {
			m.fail(n, problemOf(err))
			return
		}
		if !ok {
			m.complete(n, data, "")
			return
		}
	}
	m.enter(n, data)
}
