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
		"get":    {(*Server).get, 2},
		"set":    {(*Server).set, -3},
		"setnx":  {(*Server).setNX, 3},
		"setex":  {setFor(1000), 4},
		"psetex": {setFor(1), 4},
		"getset": {(*Server).getSet, 3},
		"getdel": {(*Server).getDel, 2},
		"mget":   {(*Server).mget, -2},
		"mset":   {(*Server).mset, -3},
		"append": {(*Server).appendTo, 3},
		"strlen": {(*Server).strlen, 2},
		"incr":   {func(s *Server, args []string) resp.Reply { return s.increase(args[1], 1) }, 2},
		"decr":   {func(s *Server, args []string) resp.Reply { return s.increase(args[1], -1) }, 2},
		"incrby": {increaseBy(1), 3},
		"decrby": {increaseBy(-1), 3},
	}
}

func (s *Server) get(args []string) resp.Reply {
	t, ok := find[text](s, args[1])
	switch {
	case !ok:
		return resp.Fail(wrongType)
	case t == nil:
		return resp.Reply{}
	default:
		return resp.Text(t.value)
	}
}

// put sets a string without expiry.
func (s *Server) put(key, value string) *item {
	it := &item{value: &text{value}}
	s.keys[key] = it
	return it
}

// setting holds the options of SET.
type setting struct {
	expires        int64 // 0: never
	nx, xx         bool
	get, keep, bad bool
	message        string // the error if bad
}

// set implements SET.
func (s *Server) set(args []string) resp.Reply {
	o := s.setOptions(args[3:])
	if o.bad {
		return resp.Fail(o.message)
	}
	key, was := args[1], s.item(args[1])
	reply := resp.OK()
	if o.get {
		if reply = s.get(args[:2]); reply.Kind == resp.Error {
			return reply
		}
	}
	if o.nx && was != nil || o.xx && was == nil {
		if !o.get {
			reply = resp.Reply{}
		}
		return reply
	}
	it := s.put(key, args[2])
	switch {
	case o.expires != 0:
		s.expire(key, it, o.expires)
	case o.keep && was != nil:
		it.expires = was.expires
	}
	return reply
}

func (s *Server) setOptions(args []string) (o setting) {
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
				n += s.ms
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

func (s *Server) setNX(args []string) resp.Reply {
	if s.item(args[1]) != nil {
		return resp.Int(0)
	}
	s.put(args[1], args[2])
	return resp.Int(1)
}

// setFor implements SETEX and PSETEX.
func setFor(unit int64) func(*Server, []string) resp.Reply {
	return func(s *Server, args []string) resp.Reply {
		n, ok := integer(args[2])
		switch {
		case !ok:
			return resp.Fail(noInteger)
		case n <= 0 || n > math.MaxInt64/4000:
			return resp.Fail("ERR invalid expire time in '" + strings.ToLower(args[0]) + "' command")
		}
		s.put(args[1], args[3]).expires = s.ms + n*unit
		return resp.OK()
	}
}

func (s *Server) getSet(args []string) resp.Reply {
	reply := s.get(args[:2])
	if reply.Kind != resp.Error {
		s.put(args[1], args[2])
	}
	return reply
}

func (s *Server) getDel(args []string) resp.Reply {
	reply := s.get(args[:2])
	if reply.Kind != resp.Error {
		delete(s.keys, args[1])
	}
	return reply
}

func (s *Server) mget(args []string) resp.Reply {
	out := make([]resp.Reply, 0, len(args)-1)
	for _, key := range args[1:] {
		if t, _ := find[text](s, key); t != nil {
			out = append(out, resp.Text(t.value))
			continue
		}
		out = append(out, resp.Reply{})
	}
	return resp.List(out...)
}

func (s *Server) mset(args []string) resp.Reply {
	if len(args)%2 == 0 {
		return resp.Fail("ERR wrong number of arguments for 'mset' command")
	}
	for i := 1; i < len(args); i += 2 {
		s.put(args[i], args[i+1])
	}
	return resp.OK()
}

func (s *Server) appendTo(args []string) resp.Reply {
	t, ok := ensure[text](s, args[1])
	if !ok {
		return resp.Fail(wrongType)
	}
	t.value += args[2]
	return resp.Int(len(t.value))
}

func (s *Server) strlen(args []string) resp.Reply {
	t, ok := find[text](s, args[1])
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
func increaseBy(sign int64) func(*Server, []string) resp.Reply {
	return func(s *Server, args []string) resp.Reply {
		n, ok := integer(args[2])
		if !ok {
			return resp.Fail(noInteger)
		}
		return s.increase(args[1], sign*n)
	}
}

func (s *Server) increase(key string, by int64) resp.Reply {
	t, ok := find[text](s, key)
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
	t, _ = ensure[text](s, key)
	t.value = strconv.FormatInt(n+by, 10)
	return resp.Int(int(n + by))
}

func overflows(n, by int64) bool {
	return by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by
}
