package memory

import (
	"math"
	"slices"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// xreadGroup implements XREADGROUP.
func xreadGroup(db *Database, args []string) resp.Reply {
	if !strings.EqualFold(args[1], "group") {
		return resp.Fail("ERR Missing GROUP option for XREADGROUP")
	}
	count, keys := readGroupOptions(db, args[4:])
	readers := make([]reader, 0, 2)
	for _, key := range keys {
		st := find[stream](db, key)
		g := st.group(args[2])
		if g == nil {
			return resp.Fail("NOGROUP No such key '" + key + "' or consumer group '" + args[2] + "' in XREADGROUP with GROUP option")
		}
		readers = append(readers, reader{stream: st, group: g, key: key})
	}
	out := make([]resp.Reply, 0, len(readers))
	for _, one := range readers {
		if n := len(one.entries); n == 0 || !one.lastDelivered.less(one.entries[n-1].streamID) {
			continue // there is nothing new
		}
		entries := one.new(db, one.ensureConsumer(args[3], db.ms), count)
		out = append(out, resp.List(resp.Text(one.key), resp.List(entries...)))
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

	key string
}

// new delivers new entries.
func (r reader) new(db *Database, c *consumer, count int) []resp.Reply {
	found := r.entries[r.stream.search(r.lastDelivered.next()):]
	found = found[:min(count, len(found))]
	out := make([]resp.Reply, len(found))
	for i := range found {
		e := &found[i]
		out[i] = e.reply()
		r.markRead(e.streamID)
		r.deliver(e, c, db.ms)
	}
	return out
}

// deliver makes an entry pending. It may be pending already if XGROUP SETID has moved the
// group back.
func (r reader) deliver(e *entry, c *consumer, now int64) {
	if p := r.find(e.streamID); p != nil {
		p.setOwner(c)
		p.deliveredAt, p.deliveries = now, 1
		return
	}
	r.addPending(pending{e.streamID, e.id, c, now, 1})
}

// markRead counts an entry as read.
func (r reader) markRead(id streamID) {
	switch {
	case r.entriesRead != unknown && !r.hasTombstonesFrom(id):
		r.entriesRead++
	case r.entriesAdded > 0:
		r.entriesRead = r.entriesUpTo(id)
	}
	r.lastDelivered = id
}

// readGroupOptions parses the arguments of XREADGROUP after its group and consumer.
func readGroupOptions(db *Database, args []string) (count int, keys []string) {
	count = math.MaxInt
	for ; len(args) > 1; args = args[2:] {
		switch word := strings.ToLower(args[0]); {
		case word == "block" && db.AcceptBlock:
		case word == "block":
			refuse("ERR the simulator cannot block: omit BLOCK")
		case word == "count":
			if n := number(args[1]); n > 0 {
				count = int(n)
			}
		case word == "streams":
			if len(args)%2 == 0 {
				refuse("ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '$' must be specified.")
			}
			keys, ids := args[1:1+len(args)/2], args[1+len(args)/2:]
			if slices.ContainsFunc(ids, func(id string) bool { return id != ">" }) {
				refuse("ERR the simulator reads new entries only: the ID has to be >")
			}
			return count, keys
		default:
			refuse(syntax)
		}
	}
	refuse(syntax)
	return 0, nil
}

func xack(db *Database, args []string) resp.Reply {
	st := find[stream](db, args[1])
	g := st.group(args[2])
	if g == nil {
		return resp.Int(0)
	}
	n := 0
	for _, text := range args[3:] {
		id := idOf(text)
		if at := g.search(id); at < len(g.pending) && g.pending[at].streamID == id {
			db.acknowledged(st, g, g.pending[at])
			g.removePending(at)
			n++
		}
	}
	return resp.Int(n)
}
