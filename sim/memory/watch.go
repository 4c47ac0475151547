package memory

import "time"

// Watch holds functions that are called when something happens to entries and keys. Each may
// be nil; they must not send commands.
type Watch struct {
	Taken        func(Entry, string, time.Duration) // a consumer claims an entry of another one, which was idle for this long
	Acknowledged func(Entry)
	Lost         func(group, id string) // an entry is removed that a group has not read or not acknowledged
	Trimmed      func(key, id string, fields []string)
	Removed      func(key string)
}

// Entry is a pending entry.
type Entry struct {
	Stream, Group, ID, Owner string
	Fields                   []string // nil if it was removed from its stream
}

// taken reports that an entry is about to get another owner.
func (db *Database) taken(g *group, p *pending, to *consumer) {
	if db.Watch.Taken != nil && p.owner != to {
		db.Watch.Taken(Entry{Stream: g.stream, Group: g.name, ID: p.id, Owner: p.owner.name}, to.name, time.Duration(db.ms-p.since)*time.Millisecond)
	}
}

// acknowledged reports that an entry is about to be acknowledged.
func (db *Database) acknowledged(st *stream, g *group, p *pending) {
	if db.Watch.Acknowledged == nil {
		return
	}
	e := Entry{Stream: g.stream, Group: g.name, ID: p.id, Owner: p.owner.name}
	if there := st.entry(p.streamID); there != nil {
		e.Fields = there.fields
	}
	db.Watch.Acknowledged(e)
}

// lost reports entries that are about to be removed although a group still needs them.
func (db *Database) lost(st *stream, going []entry) {
	if db.Watch.Lost == nil {
		return
	}
	for _, g := range st.groups {
		for i := range going {
			e := &going[i]
			at := g.search(e.streamID)
			if g.last.less(e.streamID) || at < len(g.pending) && g.pending[at].streamID == e.streamID {
				db.Watch.Lost(g.name, e.id)
			}
		}
	}
}

// trimmed reports entries that are about to be removed.
func (db *Database) trimmed(key string, going []entry) {
	if db.Watch.Trimmed == nil {
		return
	}
	for i := range going {
		db.Watch.Trimmed(key, going[i].id, going[i].fields)
	}
}
