package tui

// sourcesBefore returns the sources of a run's input: its request, else the output of the previous
// task, else the input of the task that contains it.
func (s *executionScreen) sourcesBefore(at int32) []dataSource {
	t := s.tree
	var sources []dataSource
	for ; at >= 0; at = t.runs[at].parent {
		r := &t.runs[at]
		if r.requested > 0 {
			sources = append(sources, dataSource{r.requested, inputData, ", event " + count(r.requested)})
		}
		if prior := t.prior(at); prior >= 0 {
			p := &t.runs[prior]
			note := " of " + t.tasks.at(p.key.task).Name + " before it, event " + count(p.settled)
			return append(sources, dataSource{p.settled, resultData, note})
		}
	}
	return sources
}

// prior returns the run whose output is another one's input; -1 if there is none.
func (t *taskTree) prior(at int32) int32 {
	r := &t.runs[at]
	if r.parent < 0 {
		return -1
	}
	p := &t.runs[r.parent]
	around := t.tasks.at(p.key.task)
	if around.Kind == "fork" {
		return -1
	}
	handles := caught(t.tasks.at(r.key.task), around)
	if found := t.lastOf(p.turns[r.turn].runs, at, handles); found >= 0 || handles || r.turn == 0 {
		return found
	}
	if p.turns[r.turn].attempt != p.turns[r.turn-1].attempt {
		return -1 // an attempt begins with the input of the first one
	}
	return t.lastOf(p.turns[r.turn-1].runs, at, false)
}

// lastOf is the run that ended well as the last one before another, among some.
func (t *taskTree) lastOf(runs []int32, before int32, handles bool) int32 {
	found := int32(-1)
	for _, at := range runs {
		r := &t.runs[at]
		around := t.tasks.at(t.runs[r.parent].key.task)
		if at >= before || r.state != Completed || caught(t.tasks.at(r.key.task), around) != handles {
			continue
		}
		if found < 0 || r.settled > t.runs[found].settled {
			found = at
		}
	}
	return found
}
