package memory

import (
	"strings"

	"flunq.io/flunq/sim/resp"
)

// xreadGroup implements XREADGROUP.
func xreadGroup(db *Database, args []string) resp.Reply {
	if !strings.EqualFold(args[1], "group") {
		return resp.Fail("ERR Missing GROUP option for XREADGROUP")
	}
	r, bad := readingOf(db, args[4:])
	if bad != "" {
		return resp.Fail(bad)
	}
	readers := make([]reader, 0, 2)
	for i, key := range r.keys {
		st, ok := find[stream](db, key)
		if !ok {
			return resp.Fail(wrongType)
		}
		g := st.group(args[2])
		if g == nil {
			return resp.Fail("NOGROUP No such key '" + key + "' or consumer group '" + args[2] + "' in XREADGROUP with GROUP option")
		}
		if r.ids[i] == ">" {
			readers = append(readers, reader{stream: st, group: g, key: key, fresh: true})
			continue
		}
		after, ok := streamIDOf(r.ids[i], 0)
		switch {
		case r.ids[i] == "$":
			return resp.Fail("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.")
		case !ok:
			return resp.Fail(noStreamID)
		}
		readers = append(readers, reader{stream: st, group: g, key: key, after: after})
	}
	out := db.makeReplies(len(readers))[:0]
	for _, one := range readers {
		if n := len(one.entries); one.fresh && (n == 0 || !one.group.last.less(one.entries[n-1].streamID)) {
			continue // there is nothing new
		}
		c := one.ensureConsumer(args[3], db.ms)
		var entries []resp.Reply
		if one.fresh {
			entries = one.new(db, c, r)
		} else {
			entries = one.history(c, r.count)
		}
		if len(entries) > 0 || !one.fresh {
			out = append(out, db.list(resp.Text(one.key), resp.List(entries...)))
		}
	}
	if len(out) == 0 {
		return resp.Reply{Kind: resp.NilArray}
	}
	return resp.List(out...)
}

// reader is one stream of an XREADGROUP.
type reader struct {
	*stream
	*group

	key   string
	fresh bool     // reads new entries
	after streamID // unless fresh: reads the consumer's pending entries after this id
}

// new delivers new entries.
func (r reader) new(db *Database, c *consumer, how reading) []resp.Reply {
	found := r.entries[r.stream.search(r.group.last.next()):]
	found = found[:min(how.count, len(found))]
	out := db.makeReplies(len(found))
	for i := range found {
		e := &found[i]
		out[i] = e.reply()
		r.markRead(e.streamID)
		if !how.noAck {
			r.deliver(e, c, db.ms)
		}
	}
	return out
}

// deliver makes an entry pending. It may be pending already if XGROUP SETID has moved the
// group back.
func (r reader) deliver(e *entry, c *consumer, now int64) {
	if p := r.find(e.streamID); p != nil {
		p.setOwner(c)
		p.since, p.delivery = now, 1
		return
	}
	r.addPending(pending{e.streamID, e.id, c, now, 1})
}

// markRead counts an entry as read.
func (r reader) markRead(id streamID) {
	switch {
	case r.read != unknown && !r.gapsFrom(id):
		r.read++
	case r.added > 0:
		r.read = r.distance(id)
	}
	r.group.last = id
}

// history returns the pending entries of a consumer.
func (r reader) history(c *consumer, count int) []resp.Reply {
	out := []resp.Reply{}
	for _, p := range r.pending[r.group.search(r.after.next()):] {
		if len(out) == count {
			break
		}
		if p.owner != c {
			continue
		}
		if e := r.entry(p.streamID); e != nil {
			out = append(out, e.reply())
			continue
		}
		out = append(out, resp.Reply{Kind: resp.Entry, Text: p.id})
	}
	return out
}

func xack(db *Database, args []string) resp.Reply {
	st, ok := find[stream](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	g := st.group(args[2])
	if g == nil {
		return resp.Int(0)
	}
	n := 0
	for _, text := range args[3:] {
		id, ok := streamIDOf(text, 0)
		if !ok {
			return resp.Fail(noStreamID)
		}
		if at := g.search(id); at < len(g.pending) && g.pending[at].streamID == id {
			db.acknowledged(st, g, g.pending[at])
			g.removePending(at)
			n++
		}
	}
	return resp.Int(n)
}
