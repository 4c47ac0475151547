package memory

import (
	"crypto/sha1"
	"encoding/hex"
	"maps"
	"strings"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// scriptCommands returns the commands that the server executes itself, see Server.onScripts.
func scriptCommands() map[string]command {
	return map[string]command{"eval": {nil, -3}, "evalsha": {nil, -3}, "script": {nil, -2}}
}

// onScripts executes the commands about scripts.
func (s *Server) onScripts(args []string) resp.Reply {
	switch strings.ToLower(args[0]) {
	case "evalsha":
		return s.evalSHA(args)
	case "eval":
		return s.eval(args)
	default:
		return s.script(args)
	}
}

// Source returns the source of a loaded script by its SHA1, as it was sent; "" if it is
// not loaded.
func (s *Server) Source(sha string) string {
	if known := s.loaded(sha); known != nil {
		return known.source
	}
	return ""
}

// Scripts holds compiled scripts.
type Scripts struct{ known map[string]*loaded }

// Scripts returns the scripts that the server has loaded.
func (s *Server) Scripts() *Scripts { return &Scripts{maps.Clone(s.scripts)} }

// Know makes compiled scripts available by their SHA1, without loading them.
func (s *Server) Know(scripts *Scripts) { s.known = scripts.known }

// loaded returns a script by its name; nil if it is unknown.
func (s *Server) loaded(name string) *loaded {
	if l := s.scripts[name]; l != nil {
		return l
	}
	return s.known[name]
}

// loaded is a script that a client has sent.
type loaded struct {
	*lua.Script

	name   string // its SHA1
	source string // as it was sent
}

// load compiles a script, unless it is loaded already.
func (s *Server) load(source string) (*loaded, string) {
	program, err := lua.Compile(source)
	if err != nil && s.Tamper == nil {
		return nil, "ERR Error compiling script (new function): " + err.Error()
	}
	name := named(source, program)
	if known := s.loaded(name); known != nil {
		return known, ""
	}
	if s.Tamper != nil {
		if program, err = lua.Compile(s.Tamper(source)); err != nil {
			return nil, "ERR Error compiling script (new function): " + err.Error()
		}
	}
	l := &loaded{program, name, source}
	s.scripts[name] = l
	return l, ""
}

// named returns the SHA1 of a script; program may be nil.
func named(source string, program *lua.Script) string {
	if program != nil {
		return program.SHA
	}
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// eval implements EVAL.
func (s *Server) eval(args []string) resp.Reply {
	l, bad := s.load(args[1])
	if bad != "" {
		return resp.Fail(bad)
	}
	return s.run(l, args[2:])
}

// evalSHA implements EVALSHA.
func (s *Server) evalSHA(args []string) resp.Reply {
	l := s.loaded(args[1])
	if l == nil {
		l = s.loaded(strings.ToLower(args[1]))
	}
	if l == nil {
		return resp.Fail("NOSCRIPT No matching script. Please use EVAL.")
	}
	return s.run(l, args[2:])
}

// run calls a script with the remaining arguments of an EVAL.
func (s *Server) run(l *loaded, args []string) resp.Reply {
	count, ok := integer(args[0])
	args = args[1:]
	switch {
	case !ok:
		return resp.Fail(noInteger)
	case count < 0:
		return resp.Fail("ERR Number of keys can't be negative")
	case count > int64(len(args)):
		return resp.Fail("ERR Number of keys can't be greater than number of args")
	}
	defer func(before bool) { s.transient = before }(s.transient)
	s.transient = true
	return s.runner.Run(l.Script, l.name, args[:count], args[count:])
}

// script implements SCRIPT LOAD, EXISTS and FLUSH.
func (s *Server) script(args []string) resp.Reply {
	switch verb := strings.ToLower(args[1]); {
	case verb == "load" && len(args) == 3:
		l, bad := s.load(args[2])
		if bad != "" {
			return resp.Fail(bad)
		}
		return resp.Text(l.name)
	case verb == "exists" && len(args) > 2:
		out := make([]resp.Reply, len(args)-2)
		for i, name := range args[2:] {
			out[i] = resp.Bool(s.loaded(strings.ToLower(name)) != nil)
		}
		return resp.List(out...)
	case verb == "flush" && len(args) <= 3:
		clear(s.scripts)
		s.known = nil
		return resp.OK()
	default:
		return resp.Fail("ERR unknown subcommand or wrong number of arguments for '" + args[1] + "'. Try SCRIPT HELP.")
	}
}
