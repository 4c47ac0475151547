package memory

import (
	"strings"

	"flunq.io/flunq/sim/resp"
)

// hasTombstonesFrom reports whether XDEL has deleted an entry at or after id, which Redis calls a
// tombstone: then counting does not tell what a group has read.
func (st *stream) hasTombstonesFrom(id streamID) bool {
	return len(st.entries) > 0 && st.maxDeletedID != (streamID{}) && !st.maxDeletedID.less(id)
}

// entriesUpTo returns how many entries were ever added up to id, which is the entries-read of a group
// that has read up to there; unknown where Redis cannot tell either.
func (st *stream) entriesUpTo(id streamID) int64 {
	switch {
	case st.entriesAdded == 0:
		return 0
	case len(st.entries) == 0 && id.less(st.lastID.next()), id == st.lastID:
		return st.entriesAdded
	case st.lastID.less(id):
		return unknown
	case st.maxDeletedID != (streamID{}) && !st.maxDeletedID.less(st.first()):
		return unknown
	case id.less(st.first()):
		return st.entriesAdded - int64(len(st.entries))
	case id == st.first():
		return st.entriesAdded - int64(len(st.entries)) + 1
	default:
		return unknown
	}
}

// counted returns a count as a reply; nil if it is unknown.
func counted(n int64) resp.Reply {
	if n == unknown {
		return resp.Reply{}
	}
	return resp.Reply{Kind: resp.Integer, Int: n}
}

// lag returns the lag of XINFO GROUPS: how many entries a group has not read; nil if it is unknown.
func (st *stream) lag(g *group) resp.Reply {
	switch {
	case st.entriesAdded == 0:
		return resp.Int(0)
	case g.entriesRead != unknown && !st.hasTombstonesFrom(g.lastDelivered):
		return resp.Int(int(st.entriesAdded - g.entriesRead))
	}
	if n := st.entriesUpTo(g.lastDelivered); n != unknown {
		return resp.Int(int(st.entriesAdded - n))
	}
	return resp.Reply{}
}

// xinfo implements XINFO.
func xinfo(db *Database, args []string) resp.Reply {
	verb := strings.ToLower(args[1])
	if len(args) < 3 || verb == "consumers" && len(args) != 4 {
		return resp.Fail("ERR unknown subcommand or wrong number of arguments for '" + args[1] + "'. Try XINFO HELP.")
	}
	st := find[stream](db, args[2])
	if st == nil {
		return resp.Fail("ERR no such key")
	}
	switch verb {
	case "groups":
		return describeGroups(st)
	case "consumers":
		g := st.group(args[3])
		if g == nil {
			return resp.Fail("NOGROUP No such consumer group '" + args[3] + "' for key name '" + args[2] + "'")
		}
		out := make([]resp.Reply, len(g.consumers))
		for i, c := range g.consumers {
			out[i] = resp.List(resp.Text("name"), resp.Text(c.name), resp.Text("pending"), resp.Int(c.count),
				resp.Text("idle"), resp.Int(int(db.ms-c.seenAt)))
		}
		return resp.List(out...)
	case "stream":
		return st.describe()
	default:
		return resp.Fail("ERR unknown subcommand '" + args[1] + "'. Try XINFO HELP.")
	}
}

// describeGroups implements XINFO GROUPS.
func describeGroups(st *stream) resp.Reply {
	out := make([]resp.Reply, len(st.groups))
	for i, g := range st.groups {
		out[i] = resp.List(
			resp.Text("name"), resp.Text(g.name), resp.Text("consumers"), resp.Int(len(g.consumers)),
			resp.Text("pending"), resp.Int(len(g.pending)), resp.Text("last-delivered-id"), resp.Text(g.lastDelivered.String()),
			resp.Text("entries-read"), counted(g.entriesRead), resp.Text("lag"), st.lag(g))
	}
	return resp.List(out...)
}

// describe implements XINFO STREAM.
func (st *stream) describe() resp.Reply {
	first, last := resp.Reply{}, resp.Reply{}
	if n := len(st.entries); n > 0 {
		first, last = st.entries[0].reply(), st.entries[n-1].reply()
	}
	return resp.List(
		resp.Text("length"), resp.Int(len(st.entries)), resp.Text("radix-tree-keys"), resp.Int(min(1, len(st.entries))),
		resp.Text("radix-tree-nodes"), resp.Int(2), resp.Text("last-generated-id"), resp.Text(st.lastID.String()),
		resp.Text("max-deleted-entry-id"), resp.Text(st.maxDeletedID.String()), resp.Text("entries-added"), counted(st.entriesAdded),
		resp.Text("recorded-first-entry-id"), resp.Text(st.first().String()), resp.Text("groups"), resp.Int(len(st.groups)),
		resp.Text("first-entry"), first, resp.Text("last-entry"), last)
}
