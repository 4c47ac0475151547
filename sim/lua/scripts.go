package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// Scripts is the script cache of a Redis. It executes the commands about scripts.
type Scripts struct {
	// Tamper, if set before the first script is loaded, changes the source of each script: the
	// tests of the simulator plant bugs with it.
	Tamper func(source string) string

	loaded    map[string]*Script // by SHA1
	preloaded map[string]string  // sources by SHA1; never changed
}

// Preload makes scripts available by their SHA1, as if they were loaded already. Each is compiled
// when it is first used: most runs need a few of them. It keeps the map.
func (s *Scripts) Preload(sources map[string]string) { s.preloaded = sources }

// Find returns a script by its SHA1; nil if it is not loaded.
func (s *Scripts) Find(sha string) *Script {
	if l := s.loaded[sha]; l != nil {
		return l
	}
	source, ok := s.preloaded[sha]
	if !ok {
		return nil
	}
	l, err := Compile(source)
	if err != nil {
		panic(fmt.Errorf("a preloaded script: %w", err))
	}
	return s.keep(l)
}

// keep adds a script to the loaded ones.
func (s *Scripts) keep(l *Script) *Script {
	if s.loaded == nil {
		s.loaded = map[string]*Script{}
	}
	s.loaded[l.SHA] = l
	return l
}

// Load compiles a script, unless it is loaded already. refused is the error that Redis replies.
func (s *Scripts) Load(source string) (l *Script, refused string) {
	program, err := Compile(source)
	if err != nil && s.Tamper == nil {
		return nil, "ERR Error compiling script (new function): " + err.Error()
	}
	sha := shaOf(source, program)
	if known := s.Find(sha); known != nil {
		return known, ""
	}
	if s.Tamper != nil {
		if program, err = Compile(s.Tamper(source)); err != nil {
			return nil, "ERR Error compiling script (new function): " + err.Error()
		}
		program = &Script{SHA: sha, Source: source, proto: program.proto}
	}
	return s.keep(program), ""
}

// shaOf returns the SHA1 of a script; program may be nil.
func shaOf(source string, program *Script) string {
	if program != nil {
		return program.SHA
	}
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// Execute executes EVAL, EVALSHA or SCRIPT. args has at least two arguments, or one for SCRIPT.
func (s *Scripts) Execute(r *Runner, name string, args []string) resp.Reply {
	switch strings.ToLower(name) {
	case "eval":
		l, refused := s.Load(args[0])
		if refused != "" {
			return resp.Fail(refused)
		}
		return r.eval(l, args[1:])
	case "evalsha":
		l := s.Find(args[0])
		if l == nil {
			l = s.Find(strings.ToLower(args[0]))
		}
		if l == nil {
			return resp.Fail("NOSCRIPT No matching script. Please use EVAL.")
		}
		return r.eval(l, args[1:])
	default:
		return s.script(args)
	}
}

// script implements SCRIPT LOAD, EXISTS and FLUSH.
func (s *Scripts) script(args []string) resp.Reply {
	switch verb := strings.ToLower(args[0]); {
	case verb == "load" && len(args) == 2:
		l, refused := s.Load(args[1])
		if refused != "" {
			return resp.Fail(refused)
		}
		return resp.Text(l.SHA)
	case verb == "exists" && len(args) > 1:
		out := make([]resp.Reply, len(args)-1)
		for i, sha := range args[1:] {
			out[i] = resp.Bool(s.Find(strings.ToLower(sha)) != nil)
		}
		return resp.List(out...)
	case verb == "flush" && len(args) <= 2:
		clear(s.loaded)
		s.preloaded = nil
		return resp.OK()
	default:
		return resp.Fail("ERR unknown subcommand or wrong number of arguments for '" + args[0] + "'. Try SCRIPT HELP.")
	}
}

// eval runs a script with the arguments of EVAL after it.
func (r *Runner) eval(s *Script, args []string) resp.Reply {
	keys, err := strconv.Atoi(args[0])
	text := args[0]
	args = args[1:]
	switch {
	case err != nil || strconv.Itoa(keys) != text:
		return resp.Fail("ERR value is not an integer or out of range")
	case keys < 0:
		return resp.Fail("ERR Number of keys can't be negative")
	case keys > len(args):
		return resp.Fail("ERR Number of keys can't be greater than number of args")
	}
	return r.Run(s, args[:keys], args[keys:])
}
