package memory

import (
	"math"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// keyCommands returns the commands about keys of any type.
func keyCommands() map[string]command {
	return map[string]command{
		"del":     {del, -2},
		"unlink":  {del, -2},
		"exists":  {exists, -2},
		"type":    {typeOf, 2},
		"keys":    {keysLike, 2},
		"scan":    {scan, -2},
		"rename":  {rename, 3},
		"copy":    {copyKey, -3},
		"expire":  {expire, 3},
		"pexpire": {expire, 3},
		"pttl":    {timeLeft, 2},
		"persist": {persist, 2},
	}
}

func del(db *Database, args []string) resp.Reply {
	n := 0
	for _, key := range args[1:] {
		if db.item(key) != nil {
			if db.Observer.Deleted != nil {
				db.Observer.Deleted(key)
			}
			delete(db.keys, key)
			n++
		}
	}
	return resp.Int(n)
}

func exists(db *Database, args []string) resp.Reply {
	n := 0
	for _, key := range args[1:] {
		if db.item(key) != nil {
			n++
		}
	}
	return resp.Int(n)
}

func typeOf(db *Database, args []string) resp.Reply {
	return resp.Reply{Kind: resp.Status, Text: typeName(db.item(args[1]))}
}

func typeName(it *item) string {
	if it == nil {
		return "none"
	}
	switch it.value.(type) {
	case *text:
		return "string"
	case *hash:
		return "hash"
	case *set:
		return "set"
	case *sortedSet:
		return "zset"
	default:
		return "stream"
	}
}

func keysLike(db *Database, args []string) resp.Reply { return resp.Strings(db.matching(args[1], "")) }

// scan implements SCAN. COUNT has no effect, see Server.Page.
func scan(db *Database, args []string) resp.Reply {
	pattern, kind := scanOptions(args[2:])
	return db.page(args[1], db.matching(pattern, kind), 1)
}

// scanOptions parses MATCH, COUNT and TYPE.
func scanOptions(args []string) (pattern, kind string) {
	pattern = "*"
	for len(args) > 0 {
		if len(args) == 1 {
			refuse(syntax)
		}
		switch value := args[1]; strings.ToLower(args[0]) {
		case "match":
			pattern = value
		case "type":
			kind = value
		case "count":
			if number(value) < 1 {
				refuse(syntax)
			}
		default:
			refuse(syntax)
		}
		args = args[2:]
	}
	return pattern, kind
}

func rename(db *Database, args []string) resp.Reply {
	it := db.item(args[1])
	if it == nil {
		return resp.Fail("ERR no such key")
	}
	delete(db.keys, args[1])
	db.keys[args[2]] = it
	return resp.OK()
}

// expire implements EXPIRE and PEXPIRE.
func expire(db *Database, args []string) resp.Reply {
	name, unit := strings.ToLower(args[0]), int64(1000) // milliseconds
	if name == "pexpire" {
		unit = 1
	}
	n := number(args[2])
	if n > math.MaxInt64/unit/2 || n < math.MinInt64/unit/2 {
		return resp.Fail("ERR invalid expire time in '" + name + "' command")
	}
	it := db.item(args[1])
	if it == nil {
		return resp.Int(0)
	}
	db.expire(args[1], it, db.ms+n*unit)
	return resp.Int(1)
}

func timeLeft(db *Database, args []string) resp.Reply {
	switch it := db.item(args[1]); {
	case it == nil:
		return resp.Int(-2)
	case it.expires == 0:
		return resp.Int(-1)
	default:
		return resp.Int(int(it.expires - db.ms))
	}
}

func persist(db *Database, args []string) resp.Reply {
	it := db.item(args[1])
	if it == nil || it.expires == 0 {
		return resp.Int(0)
	}
	it.expires = 0
	return resp.Int(1)
}

// number is like integer, but refuses anything else.
func number(text string) int64 {
	n, ok := integer(text)
	if !ok {
		refuse(noInteger)
	}
	return n
}

// integer parses an integer as Redis does: only digits and a minus sign.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '+' || len(text) > 1 && (text[0] == '0' || text[0] == '-' && text[1] == '0') {
		return 0, false
	}
	return n, true
}
