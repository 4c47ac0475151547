package memory

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// group is a consumer group of a stream.
type group struct {
	stream        string // its key
	name          string
	lastDelivered streamID // last delivered id
	entriesRead   int64    // entries read, of all that were ever added; unknown if negative
	pending       []*pending
	consumers     []*consumer // sorted by name
}

// consumer is a member of a group.
type consumer struct {
	name   string
	count  int   // number of its pending entries
	seenAt int64 // in milliseconds since 1970
}

// pending is an entry that was delivered and not acknowledged.
type pending struct {
	streamID

	id          string
	owner       *consumer
	deliveredAt int64 // in milliseconds since 1970
	deliveries  int64 // delivery count
}

// unknown stands for an unknown count.
const unknown = -1

func (st *stream) group(name string) *group {
	if st == nil {
		return nil
	}
	for _, g := range st.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

func (g *group) consumer(name string) *consumer {
	for _, c := range g.consumers {
		if c.name == name {
			return c
		}
	}
	return nil
}

// ensureConsumer returns the consumer with a name, and creates it if necessary.
func (g *group) ensureConsumer(name string, now int64) *consumer {
	c := g.consumer(name)
	if c == nil {
		c = &consumer{name: name}
		at, _ := slices.BinarySearchFunc(g.consumers, name, func(c *consumer, name string) int { return cmp.Compare(c.name, name) })
		g.consumers = slices.Insert(g.consumers, at, c)
	}
	c.seenAt = now
	return c
}

// search returns the index of the first pending entry that is not before id.
func (g *group) search(id streamID) int {
	return sort.Search(len(g.pending), func(i int) bool { return !g.pending[i].less(id) })
}

// find returns a pending entry; nil if there is none.
func (g *group) find(id streamID) *pending {
	if at := g.search(id); at < len(g.pending) && g.pending[at].streamID == id {
		return g.pending[at]
	}
	return nil
}

// addPending adds a pending entry.
func (g *group) addPending(p pending) *pending {
	p.owner.count++
	g.pending = slices.Insert(g.pending, g.search(p.streamID), &p)
	return &p
}

// setOwner changes the owner of a pending entry.
func (p *pending) setOwner(to *consumer) {
	p.owner.count--
	to.count++
	p.owner = to
}

// removePending removes the pending entry at an index.
func (g *group) removePending(at int) {
	g.pending[at].owner.count--
	g.pending = slices.Delete(g.pending, at, at+1)
}

func groupCommands() map[string]command {
	return map[string]command{
		"xgroup":     {xgroup, -2},
		"xreadgroup": {xreadGroup, -7},
		"xack":       {xack, -4},
		"xpending":   {xpending, -3},
		"xclaim":     {xclaim, -6},
		"xautoclaim": {xautoClaim, -6},
		"xinfo":      {xinfo, -2},
	}
}

// xgroup implements XGROUP.
func xgroup(db *Database, args []string) resp.Reply {
	verb := strings.ToLower(args[1])
	want := map[string]int{"create": 5, "setid": 5, "destroy": 4, "createconsumer": 5, "delconsumer": 5}[verb]
	if want == 0 || len(args) < want {
		return resp.Fail("ERR unknown subcommand or wrong number of arguments for '" + args[1] + "'. Try XGROUP HELP.")
	}
	st := find[stream](db, args[2])
	if st == nil && (verb != "create" || len(args) == want || !strings.EqualFold(args[want], "mkstream")) {
		return resp.Fail("ERR The XGROUP subcommand requires the key to exist. " +
			"Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.")
	}
	g := st.group(args[3])
	switch {
	case verb == "create":
		return createGroup(db, st, g, args)
	case verb == "destroy":
		if g != nil {
			st.groups = slices.DeleteFunc(st.groups, func(other *group) bool { return other == g })
		}
		return resp.Bool(g != nil)
	case g == nil:
		return resp.Fail("NOGROUP No such consumer group '" + args[3] + "' for key name '" + args[2] + "'")
	case verb == "setid":
		return st.setGroupID(g, args[4:])
	case verb == "createconsumer":
		isNew := g.consumer(args[4]) == nil
		g.ensureConsumer(args[4], db.ms)
		return resp.Bool(isNew)
	default:
		return deleteConsumer(db, g, args[4])
	}
}

// position parses an id, or $ for the last one of a stream, which may be nil.
func (st *stream) position(text string) streamID {
	switch {
	case text != "$":
		return idOf(text)
	case st != nil:
		return st.lastID
	default:
		return streamID{}
	}
}

func createGroup(db *Database, st *stream, g *group, args []string) resp.Reply {
	at := st.position(args[4])
	switch {
	case g != nil:
		return resp.Fail("BUSYGROUP Consumer Group name already exists")
	case st == nil:
		st = ensure[stream](db, args[2])
	}
	place, _ := slices.BinarySearchFunc(st.groups, args[3], func(g *group, name string) int { return cmp.Compare(g.name, name) })
	st.groups = slices.Insert(st.groups, place, &group{stream: args[2], name: args[3], lastDelivered: at, entriesRead: unknown})
	return resp.OK()
}

// setGroupID implements XGROUP SETID with the arguments after the group: an id, and perhaps
// ENTRIESREAD and a number.
func (st *stream) setGroupID(g *group, args []string) resp.Reply {
	at, read := st.position(args[0]), int64(unknown)
	if rest := args[1:]; len(rest) == 2 && strings.EqualFold(rest[0], "entriesread") {
		var ok bool
		if read, ok = integer(rest[1]); !ok || read < unknown {
			return resp.Fail("ERR value for ENTRIESREAD must be positive or -1")
		}
	} else if len(rest) > 0 {
		return resp.Fail(syntax)
	}
	g.lastDelivered, g.entriesRead = at, read
	return resp.OK()
}

// deleteConsumer deletes a consumer and its pending entries.
func deleteConsumer(db *Database, g *group, name string) resp.Reply {
	c := g.consumer(name)
	if c == nil {
		return resp.Int(0)
	}
	n := c.count
	for _, p := range g.pending {
		if p.owner == c && db.Observer.Lost != nil {
			db.Observer.Lost(g.name, p.id)
		}
	}
	g.pending = slices.DeleteFunc(g.pending, func(p *pending) bool { return p.owner == c })
	g.consumers = slices.DeleteFunc(g.consumers, func(other *consumer) bool { return other == c })
	return resp.Int(n)
}
