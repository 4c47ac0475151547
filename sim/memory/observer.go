package memory

import "time"

// Observer holds functions that are called when something is about to happen to entries and keys.
// Each may be nil; they must not send commands.
type Observer struct {
	Claimed      func(e Entry, to string, idle time.Duration) // consumer to claims an entry of another one
	Acknowledged func(Entry)
	Lost         func(group, id string) // an entry is removed that a group has not read or not acknowledged
	Trimmed      func(key, id string, fields []string)
	Deleted      func(key string) // by DEL or UNLINK
}

// Entry is an entry in the pending entries list (PEL) of a group.
type Entry struct {
	Stream, Group, ID, Owner string
	Fields                   []string // nil if it was removed from its stream
}

// claimed reports that the owner of an entry is about to change.
func (db *Database) claimed(g *group, p *pending, to *consumer) {
	if db.Observer.Claimed != nil && p.owner != to {
		db.Observer.Claimed(Entry{Stream: g.stream, Group: g.name, ID: p.id, Owner: p.owner.name}, to.name, time.Duration(db.ms-p.deliveredAt)*time.Millisecond)
	}
}

// acknowledged reports that an entry is about to be acknowledged.
func (db *Database) acknowledged(st *stream, g *group, p *pending) {
	if db.Observer.Acknowledged == nil {
		return
	}
	e := Entry{Stream: g.stream, Group: g.name, ID: p.id, Owner: p.owner.name}
	if there := st.entry(p.streamID); there != nil {
		e.Fields = there.fields
	}
	db.Observer.Acknowledged(e)
}

// lost reports entries that are about to be removed although a group still needs them.
func (db *Database) lost(st *stream, going []entry) {
	if db.Observer.Lost == nil {
		return
	}
	for _, g := range st.groups {
		for i := range going {
			e := &going[i]
			at := g.search(e.streamID)
			if g.lastDelivered.less(e.streamID) || at < len(g.pending) && g.pending[at].streamID == e.streamID {
				db.Observer.Lost(g.name, e.id)
			}
		}
	}
}

// trimmed reports entries that are about to be removed.
func (db *Database) trimmed(key string, going []entry) {
	if db.Observer.Trimmed == nil {
		return
	}
	for i := range going {
		db.Observer.Trimmed(key, going[i].id, going[i].fields)
	}
}
