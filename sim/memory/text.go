package memory

import (
	"math"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// text is a Redis string.
type text struct{ value string }

func textCommands() map[string]command {
	return map[string]command{
		"get":      {get, 2},
		"set":      {setText, -3},
		"mset":     {mset, -3},
		"mget":     {mget, -2},
		"getrange": {getRange, 4},
	}
}

func get(db *Database, args []string) resp.Reply {
	t := find[text](db, args[1])
	if t == nil {
		return resp.Reply{}
	}
	return resp.Text(t.value)
}

// setText implements SET.
func setText(db *Database, args []string) resp.Reply {
	var expires int64 // in milliseconds since 1970; 0: never
	var nx, xx bool
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		name := strings.ToLower(rest[0])
		switch {
		case name == "nx":
			nx = true
		case name == "xx":
			xx = true
		case (name == "ex" || name == "px" || name == "pxat") && len(rest) > 1 && expires == 0:
			n := number(rest[1])
			if n <= 0 || n > math.MaxInt64/4000 {
				return resp.Fail("ERR invalid expire time in 'set' command")
			}
			if name == "ex" {
				n *= 1000
			}
			if name != "pxat" {
				n += db.ms
			}
			expires, rest = n, rest[1:]
		default:
			return resp.Fail(syntax)
		}
	}
	exists := db.item(args[1]) != nil
	switch {
	case nx && xx:
		return resp.Fail(syntax)
	case nx && exists || xx && !exists:
		return resp.Reply{}
	}
	it := db.put(args[1], args[2])
	if expires != 0 {
		db.expire(args[1], it, expires)
	}
	return resp.OK()
}

func mset(db *Database, args []string) resp.Reply {
	if len(args)%2 == 0 {
		return resp.Fail("ERR wrong number of arguments for 'mset' command")
	}
	for i := 1; i < len(args); i += 2 {
		db.put(args[i], args[i+1])
	}
	return resp.OK()
}

func mget(db *Database, args []string) resp.Reply {
	out := make([]resp.Reply, 0, len(args)-1)
	for _, key := range args[1:] {
		if t, _ := lookup[text](db, key); t != nil {
			out = append(out, resp.Text(t.value))
			continue
		}
		out = append(out, resp.Reply{})
	}
	return resp.List(out...)
}

func getRange(db *Database, args []string) resp.Reply {
	first, last := number(args[2]), number(args[3])
	t := find[text](db, args[1])
	if t == nil {
		t = &text{}
	}
	if first < 0 && last < first {
		return resp.Text("")
	}
	// Unlike in a list, an index before the start is the first byte, also as the last index.
	size := int64(len(t.value))
	if first < 0 {
		first = max(first+size, 0)
	}
	if last < 0 {
		last = max(last+size, 0)
	}
	if last = min(last, size-1); first > last {
		return resp.Text("")
	}
	return resp.Text(t.value[first : last+1])
}
