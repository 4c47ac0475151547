package memory

import (
	"math"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// text is a Redis string.
type text struct{ value string }

func textCommands() map[string]command {
	return map[string]command{
		"get":      {get, 2},
		"set":      {setText, -3},
		"setnx":    {setNX, 3},
		"setex":    {setFor(1000), 4},
		"psetex":   {setFor(1), 4},
		"getset":   {getSet, 3},
		"getdel":   {getDel, 2},
		"mget":     {mget, -2},
		"mset":     {mset, -3},
		"append":   {appendTo, 3},
		"strlen":   {strlen, 2},
		"getrange": {getRange, 4},
		"incr":     {func(db *Database, args []string) resp.Reply { return increase(db, args[1], 1) }, 2},
		"decr":     {func(db *Database, args []string) resp.Reply { return increase(db, args[1], -1) }, 2},
		"incrby":   {increaseBy(1), 3},
		"decrby":   {increaseBy(-1), 3},
	}
}

func get(db *Database, args []string) resp.Reply {
	t, ok := find[text](db, args[1])
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case t == nil:
		return resp.Reply{}
	default:
		return resp.Text(t.value)
	}
}

// setting holds the options of SET.
type setting struct {
	expires        int64 // 0: never
	nx, xx         bool
	get, keep, bad bool
	message        string // the error if bad
}

// setText implements SET.
func setText(db *Database, args []string) resp.Reply {
	o := setOptions(db, args[3:])
	if o.bad {
		return resp.Fail(o.message)
	}
	key, was := args[1], db.item(args[1])
	reply := resp.OK()
	if o.get {
		if reply = get(db, args[:2]); reply.Kind == resp.Error {
			return reply
		}
	}
	if o.nx && was != nil || o.xx && was == nil {
		if !o.get {
			reply = resp.Reply{}
		}
		return reply
	}
	it := db.put(key, args[2])
	switch {
	case o.expires != 0:
		db.expire(key, it, o.expires)
	case o.keep && was != nil:
		it.expires = was.expires
	}
	return reply
}

func setOptions(db *Database, args []string) (o setting) {
	fail := func(message string) setting { return setting{bad: true, message: message} }
	for ; len(args) > 0; args = args[1:] {
		name := strings.ToLower(args[0])
		switch name {
		case "nx":
			o.nx = true
		case "xx":
			o.xx = true
		case "get":
			o.get = true
		case "keepttl":
			o.keep = true
		case "ex", "px", "exat", "pxat":
			if len(args) < 2 || o.expires != 0 {
				return fail(syntax)
			}
			n, ok := integer(args[1])
			if !ok {
				return fail(noInteger)
			}
			if n <= 0 || n > math.MaxInt64/4000 {
				return fail("ERR invalid expire time in 'set' command")
			}
			if name[0] == 'e' {
				n *= 1000
			}
			if len(name) == 2 {
				n += db.ms
			}
			o.expires, args = n, args[1:]
		default:
			return fail(syntax)
		}
	}
	if o.nx && o.xx || o.keep && o.expires != 0 {
		return fail(syntax)
	}
	return o
}

func setNX(db *Database, args []string) resp.Reply {
	if db.item(args[1]) != nil {
		return resp.Int(0)
	}
	db.put(args[1], args[2])
	return resp.Int(1)
}

// setFor implements SETEX and PSETEX.
func setFor(unit int64) func(*Database, []string) resp.Reply {
	return func(db *Database, args []string) resp.Reply {
		n, ok := integer(args[2])
		switch {
		case !ok:
			return resp.Fail(noInteger)
		case n <= 0 || n > math.MaxInt64/4000:
			return resp.Fail("ERR invalid expire time in '" + strings.ToLower(args[0]) + "' command")
		}
		db.put(args[1], args[3]).expires = db.ms + n*unit
		return resp.OK()
	}
}

func getSet(db *Database, args []string) resp.Reply {
	reply := get(db, args[:2])
	if reply.Kind != resp.Error {
		db.put(args[1], args[2])
	}
	return reply
}

func getDel(db *Database, args []string) resp.Reply {
	reply := get(db, args[:2])
	if reply.Kind != resp.Error {
		delete(db.keys, args[1])
	}
	return reply
}

func mget(db *Database, args []string) resp.Reply {
	out := make([]resp.Reply, 0, len(args)-1)
	for _, key := range args[1:] {
		if t, _ := find[text](db, key); t != nil {
			out = append(out, resp.Text(t.value))
			continue
		}
		out = append(out, resp.Reply{})
	}
	return resp.List(out...)
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

func appendTo(db *Database, args []string) resp.Reply {
	t, ok := ensure[text](db, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	t.value += args[2]
	return resp.Int(len(t.value))
}

func getRange(db *Database, args []string) resp.Reply {
	t, ok := find[text](db, args[1])
	if t == nil {
		t = &text{}
	}
	from, to, valid := span(args[2], args[3], len(t.value))
	switch {
	case !valid:
		return resp.Fail(noInteger)
	case !ok:
		return resp.Fail(wrongType)
	}
	return resp.Text(t.value[from:to])
}

func strlen(db *Database, args []string) resp.Reply {
	t, ok := find[text](db, args[1])
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case t == nil:
		return resp.Int(0)
	default:
		return resp.Int(len(t.value))
	}
}

// increaseBy implements INCRBY and DECRBY.
func increaseBy(sign int64) func(*Database, []string) resp.Reply {
	return func(db *Database, args []string) resp.Reply {
		n, ok := integer(args[2])
		if !ok {
			return resp.Fail(noInteger)
		}
		return increase(db, args[1], sign*n)
	}
}

func increase(db *Database, key string, by int64) resp.Reply {
	t, ok := find[text](db, key)
	if !ok {
		return resp.Fail(wrongType)
	}
	old := "0"
	if t != nil {
		old = t.value
	}
	n, ok := integer(old)
	switch {
	case !ok:
		return resp.Fail(noInteger)
	case overflows(n, by):
		return resp.Fail(wouldOverWr)
	}
	t, _ = ensure[text](db, key)
	t.value = strconv.FormatInt(n+by, 10)
	return resp.Int(int(n + by))
}

func overflows(n, by int64) bool {
	return by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by
}
