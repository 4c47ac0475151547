package executor

import "slices"

// line is requests that wait, those of each tenant in their order. Tenants take turns,
// so that one with many requests does not keep the others waiting.
type line struct {
	size  int
	turns []string // tenants that have some
	begun bool     // the first of them has had a part of its turn
	of    map[string][]*job
}

// put adds a request behind those of its tenant.
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

// first is the one whose turn it is among those of tenants that may; nil if there is
// none. Those that may not keep their places.
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

// next is the place of the first tenant that may; -1 if there is none.
func (l *line) next(may func(tenant string) bool) int {
	if may == nil {
		return min(0, len(l.turns)-1)
	}
	return slices.IndexFunc(l.turns, may)
}

// shift takes that one out; it is the turn of all other tenants before the next of
// the same.
func (l *line) shift() {
	l.pull()
	l.turn()
}

// pull takes that one out; it is still the turn of the same tenant, if it has more.
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

// turn ends the turn of a tenant that has begun.
func (l *line) turn() {
	if l.begun && len(l.turns) > 1 {
		l.turns = append(l.turns[1:], l.turns[0])
	}
	l.begun = false
}

// drop takes out those that are gone.
func (l *line) drop(gone func(*job) bool) {
	jobs := slices.DeleteFunc(l.all(), gone)
	*l = line{}
	for _, j := range jobs {
		l.put(j)
	}
}

// all are the requests of all tenants.
func (l *line) all() (out []*job) {
	for _, tenant := range l.turns {
		out = append(out, l.of[tenant]...)
	}
	return out
}
