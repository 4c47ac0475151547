package memory

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"

	"flunq.io/flunq/sim/resp"
)

// scans returns the command that scans a value whose elements consist of width strings each.
func scans[T any](width int, elements func(*T) []string) func(*Database, []string) resp.Reply {
	return reads(func(db *Database, value *T, args []string) resp.Reply {
		pattern, kind := scanOptions(args[3:])
		if kind != "" {
			return resp.Fail(syntax)
		}
		var out []string
		for one := range slices.Chunk(elements(value), width) {
			if glob(pattern, one[0]) {
				out = append(out, one...)
			}
		}
		return db.page(args[2], out, width)
	})
}

// page returns the reply of a SCAN command: the elements at or after a cursor, each of
// which consists of width strings. Elements that exist during the whole scan are returned, whatever
// is added or removed meanwhile.
func (db *Database) page(cursor string, all []string, width int) resp.Reply {
	from, err := strconv.ParseUint(cursor, 10, 64)
	switch {
	case err != nil:
		return resp.Fail("ERR invalid cursor")
	case db.Page == 0 && from == 0:
		return resp.List(resp.Text("0"), resp.Strings(all))
	case db.Page == 0:
		return resp.List(resp.Text("0"), resp.Strings(nil))
	}
	return scanned(from, slices.Collect(slices.Chunk(all, width)), db.Page)
}

// scanned returns count elements whose position is at or after from, and all others with
// the same position as the last one.
func scanned(from uint64, all [][]string, count int) resp.Reply {
	slices.SortStableFunc(all, func(a, b []string) int { return cmp.Compare(place(a), place(b)) })
	var found []string
	last := uint64(0)
	for _, one := range all {
		at := place(one)
		if at < from {
			continue
		}
		if count <= 0 && at != last {
			return resp.List(resp.Text(strconv.FormatUint(at, 10)), resp.Strings(found))
		}
		found, last = append(found, one...), at
		count--
	}
	return resp.List(resp.Text("0"), resp.Strings(found))
}

// place returns the position of an element in a scan; never 0.
func place(one []string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(one[0])) // never fails
	return h.Sum64() | 1
}
