package lua

import (
	"slices"

	"flunq.io/flunq/sim/resp"
)

// reserve holds the tables of one run of a script. None outlives the run, so the next run
// reuses them.
type reserve struct {
	tables []*table
	used   int
}

// The number of tables, and the size of each, that are kept for the next run.
const (
	mostTables  = 256
	mostInTable = 256
)

// clear makes all tables available again.
func (r *reserve) clear() {
	if len(r.tables) > mostTables {
		clear(r.tables[mostTables:])
		r.tables = r.tables[:mostTables]
	}
	r.used = 0
}

// table returns an empty table.
func (r *reserve) table() *table {
	if r.used == len(r.tables) {
		r.tables = append(r.tables, &table{kind: isTable})
	}
	t := r.tables[r.used]
	r.used++
	t.empty()
	return t
}

// empty clears a table.
func (t *table) empty() {
	if cap(t.list) > mostInTable {
		t.list = nil
	}
	t.list, t.pairs, t.more = t.list[:0], t.pairs[:0], nil
}

// single returns a table with one field.
func (r *reserve) single(name, content string) value {
	t := r.table()
	t.pairs = append(t.pairs, pair{text(name), text(content)})
	return value{is: t}
}

// texts returns a list of strings.
func (r *reserve) texts(list []string) value {
	t := r.table()
	t.add(list)
	return value{is: t}
}

// add appends strings to a list.
func (t *table) add(texts []string) {
	t.list = slices.Grow(t.list, len(texts))
	for _, s := range texts {
		t.list = append(t.list, text(s))
	}
}

// seen converts a reply to a Lua value.
func (r *reserve) seen(reply *resp.Reply) value {
	switch reply.Kind {
	case resp.Status:
		return r.single("ok", reply.Text)
	case resp.Error:
		return r.single("err", reply.Text)
	case resp.Integer:
		return number(float64(reply.Int))
	case resp.Bulk:
		return text(reply.Text)
	case resp.Array:
		t := r.table()
		t.list = slices.Grow(t.list, len(reply.List))
		for i := range reply.List {
			t.list = append(t.list, r.seen(&reply.List[i]))
		}
		return value{is: t}
	case resp.Bulks:
		return r.texts(reply.Texts)
	case resp.Entry:
		fields := boolean(false)
		if reply.Texts != nil {
			fields = r.texts(reply.Texts)
		}
		t := r.table()
		t.list = append(t.list, text(reply.Text), fields)
		return value{is: t}
	default:
		return boolean(false)
	}
}
