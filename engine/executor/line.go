package executor

import "slices"

// line queues requests, in order within each tenant. Tenants take turns, so that a long
// queue does not delay the others.
type line struct {
	size  int
	turns []string // tenants with requests, in order of their turns
	begun bool     // the first tenant has used part of its turn
	of    map[string][]*job
}

// put appends a request to its tenant's queue.
func (l *line) put(j *job) {
	tenant := j.message.Tenant
	if l.of == nil {
		l.of = map[string][]*job{}
	}
	if len(l.of[tenant]) == 0 {
		l.turns = append(l.turns, tenant)
	}
	l.of[tenant] = append(l.of[tenant], j)
	l.size++
}

// first returns the next request in turn of a tenant that may begin one; nil if there is
// none. Tenants that may not keep their place.
func (l *line) first(may func(tenant string) bool) *job {
	i := l.next(may)
	if i < 0 {
		return nil
	}
	tenant := l.turns[i]
	if i > 0 {
		l.turns = slices.Insert(slices.Delete(l.turns, i, i+1), 0, tenant)
	}
	return l.of[tenant][0]
}

// next returns the index of the first tenant that may begin a request; -1 if there is
// none.
func (l *line) next(may func(tenant string) bool) int {
	if may == nil {
		return min(0, len(l.turns)-1)
	}
	return slices.IndexFunc(l.turns, may)
}

// shift removes the first request and ends its tenant's turn.
func (l *line) shift() {
	l.pull()
	l.turn()
}

// pull removes the first request. Its tenant keeps its turn if it has more.
func (l *line) pull() {
	tenant := l.turns[0]
	rest := l.of[tenant]
	rest[0] = nil
	l.size--
	if l.begun = len(rest) > 1; l.begun {
		l.of[tenant] = rest[1:]
		return
	}
	delete(l.of, tenant)
	if len(l.turns) == 1 {
		l.turns = l.turns[:0]
	} else {
		l.turns = l.turns[1:]
	}
}

// turn ends the turn of a tenant that has used part of it.
func (l *line) turn() {
	if l.begun && len(l.turns) > 1 {
		l.turns = append(l.turns[1:], l.turns[0])
	}
	l.begun = false
}

// drop removes the requests that gone reports.
func (l *line) drop(gone func(*job) bool) {
	jobs := slices.DeleteFunc(l.all(), gone)
	*l = line{}
	for _, j := range jobs {
		l.put(j)
	}
}

// all returns the requests of all tenants.
func (l *line) all() (out []*job) {
	for _, tenant := range l.turns {
		out = append(out, l.of[tenant]...)
	}
	return out
}
