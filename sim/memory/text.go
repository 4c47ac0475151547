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
		"setnx":    {setNX, 3},
		"mget":     {mget, -2},
		"getrange": {getRange, 4},
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
	expires int64 // in milliseconds since 1970; 0: never
	nx, xx  bool
	bad     string // the error of invalid options; "" if there is none
}

// setText implements SET.
func setText(db *Database, args []string) resp.Reply {
	o := setOptions(db, args[3:])
	if o.bad != "" {
		return resp.Fail(o.bad)
	}
	if exists := db.item(args[1]) != nil; o.nx && exists || o.xx && !exists {
		return resp.Reply{}
	}
	it := db.put(args[1], args[2])
	if o.expires != 0 {
		db.expire(args[1], it, o.expires)
	}
	return resp.OK()
}

func setOptions(db *Database, args []string) (o setting) {
	fail := func(message string) setting { return setting{bad: message} }
	for ; len(args) > 0; args = args[1:] {
		name := strings.ToLower(args[0])
		switch name {
		case "nx":
			o.nx = true
		case "xx":
			o.xx = true
		case "ex", "px", "pxat":
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
			if name == "ex" {
				n *= 1000
			}
			if name != "pxat" {
				n += db.ms
			}
			o.expires, args = n, args[1:]
		default:
			return fail(syntax)
		}
	}
	if o.nx && o.xx {
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
