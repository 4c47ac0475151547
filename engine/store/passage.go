package store

import (
	"slices"
	"sync"

	"flunq.io/flunq/engine/event"
)

// passages are parts of streams that the process has read for one of its groups, or has
// written at once, and that groups of it have not been given yet. Most of a stream does
// not concern a group: instead of reading, and acknowledging, all of it once more it is
// moved over what is known, and given what it wants of that (see takeScript).
type passages struct {
	least int // entries of a passage: one of fewer is sooner read again

	mu    sync.Mutex
	wants map[string]func(event.Type) bool // by the groups that read here
	last  map[spot]string                  // what each was given last, as far as it is known here
	ahead map[spot][]passage               // in the order of the stream
	apart map[spot]bool                    // something else comes before that: it is to be read
}

// spot is a group on the stream of a tenant.
type spot struct{ tenant, group string }

// passage is entries of a stream one behind the other.
type passage struct {
	ids    []string // nobody changes them
	gone   int      // of these, those that the group was given since
	wanted []piece  // of the others
}

// piece is an entry that a group wants.
type piece struct {
	at     int      // its place among the ids
	text   string   // of an entry that was read …
	fields []string // … or the fields of one that was written, in the order of their names
}

// mostPassages is how many a group is behind at most. What is not overheard is read.
const mostPassages = 50

// join notes that a group reads here, and says of which of its tenants something is
// known for it, at most of so many.
func (p *passages) join(r *Reader, most int) (tenants []string) {
	if r.Wants == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.least == 0 {
		return nil
	}
	if p.wants == nil {
		p.wants, p.last = map[string]func(event.Type) bool{}, map[spot]string{}
		p.ahead, p.apart = map[spot][]passage{}, map[spot]bool{}
	}
	if p.wants[r.Group] == nil {
		p.wants[r.Group] = r.Wants
	}
	for _, tenant := range r.Tenants {
		at := spot{tenant, r.Group}
		if len(tenants) < most && len(p.ahead) > 0 && len(p.ahead[at]) > 0 && !p.apart[at] {
			tenants = append(tenants, tenant)
		}
	}
	return tenants
}

// next is what is known to be next for a group, or was; so much of it that it wants at
// most count of the entries. There may be none.
func (p *passages) next(at spot, count int) (next passage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ahead[at]) == 0 {
		return next
	}
	next = p.ahead[at][0]
	if len(next.wanted) > count {
		next.wanted = next.wanted[:count]
		next.ids = next.ids[:next.wanted[count-1].at+1]
	}
	return next
}

// given notes up to which entry a group was given the stream.
func (p *passages) given(at spot, last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.least == 0 || p.last == nil || compareIDs(p.last[at], last) > 0 {
		return
	}
	p.last[at] = last
	delete(p.apart, at)
	rest := p.ahead[at]
	for len(rest) > 0 && !rest[0].drop(last) {
		rest = rest[1:]
	}
	if p.ahead[at] = rest; len(rest) == 0 {
		delete(p.ahead, at)
	}
}

// drop takes away what stands up to an entry, and reports whether anything is left.
func (p *passage) drop(last string) bool {
	for p.gone < len(p.ids) && compareIDs(p.ids[p.gone], last) <= 0 {
		p.gone++
	}
	for len(p.wanted) > 0 && p.wanted[0].at < p.gone {
		p.wanted = p.wanted[1:]
	}
	return p.gone < len(p.ids)
}

// moved notes that something else follows for a group than what is known: it was given
// the stream up to an entry, or is gone.
func (p *passages) moved(at spot, last string) {
	if last != "" {
		p.given(at, last)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if last == "" {
		delete(p.ahead, at)
		delete(p.last, at)
	} else if len(p.ahead[at]) > 0 {
		p.apart[at] = true
	}
}

// off has nothing overheard any more.
func (p *passages) off() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.least, p.ahead, p.last = 0, nil, nil // nobody joins again
}

// noting is a passage while it is read for one group, for all others, or was written.
type noting struct {
	passages *passages
	tenant   string
	ids      []string
	others   []overheard
}

// overheard is what another group has of it.
type overheard struct {
	group  string
	wants  func(event.Type) bool
	wanted []piece
}

// begin begins to note what was read for a group, or for none; nil if nobody needs it.
func (p *passages) begin(at spot, entries int) *noting {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.least == 0 || entries < p.least {
		return nil
	}
	n := noting{passages: p, tenant: at.tenant}
	for group, wants := range p.wants {
		if group != at.group && len(p.ahead[spot{at.tenant, group}]) < mostPassages {
			n.others = append(n.others, overheard{group: group, wants: wants})
		}
	}
	if len(n.others) == 0 {
		return nil
	}
	n.ids = make([]string, 0, entries)
	return &n
}

// entry notes the next one.
func (n *noting) entry(id string, e *rawEntry, typ event.Type) {
	if n == nil {
		return
	}
	text := ""
	for i := range n.others {
		if o := &n.others[i]; typ == "" || o.wants(typ) {
			if text == "" {
				text = string(e.reply.of(e.whole))
			}
			o.wanted = append(o.wanted, piece{at: len(n.ids), text: text})
		}
	}
	n.ids = append(n.ids, id)
}

// written notes the next one, which the process has written itself.
func (n *noting) written(id string, s *Store, e *event.Event) {
	var fields []string
	for i := range n.others {
		if o := &n.others[i]; o.wants(e.Type) {
			if fields == nil {
				fields = sortFields(s.fields(*e))
			}
			o.wanted = append(o.wanted, piece{at: len(n.ids), fields: fields})
		}
	}
	n.ids = append(n.ids, id)
}

// end has the others know, as far as they have not been given it meanwhile.
func (n *noting) end() {
	if n == nil || len(n.ids) == 0 {
		return
	}
	p := n.passages
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.least == 0 {
		return
	}
	for _, o := range n.others {
		at := spot{n.tenant, o.group}
		if one := (passage{ids: n.ids, wanted: o.wanted}); one.drop(p.last[at]) {
			p.ahead[at] = insert(p.ahead[at], one)
		}
	}
}

// insert puts a passage to its place among others, of which none has an entry that
// another has as well.
func insert(list []passage, one passage) []passage {
	at := len(list)
	for at > 0 && compareIDs(list[at-1].first(), one.first()) > 0 {
		at--
	}
	if at > 0 && !one.drop(list[at-1].end()) {
		return list
	}
	end := at // of those that it holds
	for end < len(list) && !list[end].drop(one.end()) {
		end++
	}
	return slices.Replace(list, at, end, one)
}

// first is the first entry that is left.
func (p *passage) first() string { return p.ids[p.gone] }

// end is the last entry.
func (p *passage) end() string { return p.ids[len(p.ids)-1] }

// writes begins to note so many entries that were written to the stream of a tenant at
// once; nil if nobody needs it.
func (s *Store) writes(tenant string, entries int) *noting {
	return s.passages.begin(spot{tenant: tenant}, entries)
}

// overhears reports whether it matters which entries are written.
func (p *passages) overhears(entries int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.least > 0 && entries >= p.least && len(p.wants) > 0
}
