package sim

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
)

// led reports whether a child has ended in another way because of the one that has
// started it: it was given another input, or was cancelled by it.
func (h *hunt) led(t *Trial, end End, usual []*class, got *facts) bool {
	at := strings.LastIndexByte(end.ID, '.')
	if at < 0 {
		return false
	}
	if !slices.ContainsFunc(usual, func(c *class) bool {
		return slices.ContainsFunc(c.facts, func(f *facts) bool { return f.input == got.input })
	}) {
		return true
	}
	parent := slices.IndexFunc(t.Ends, func(e End) bool { return e.ID == end.ID[:at] })
	return end.Status == decide.Cancelled && parent >= 0 && h.odd(t.Ends[parent])
}

// ofChild is the failure of an execution that has ended in another way because one
// has that it has started.
func (h *hunt) ofChild(t *Trial, end End) (failure, bool) {
	for _, child := range t.Ends {
		rest, ok := strings.CutPrefix(child.ID, end.ID+".")
		if !ok || strings.Contains(rest, ".") || !h.odd(child) {
			continue
		}
		if f, ok := h.attribute(t, child); ok {
			if f.Class != Engine {
				f.Execution, f.task = end.ID, ""
				f.Detail = "in its child " + child.ID + ": " + f.Detail
			}
			return f, true
		}
	}
	return failure{}, false
}
