// Package memory is a Redis inside the process: no port, no socket, a clock that
// stands still until it is moved, and every command carried out at once, on the
// goroutine of whoever sends it. What a real one does in any order this one does in
// the same order each time.
package memory

import (
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// Server is one such Redis. It knows database 0 only, and blocks nobody.
type Server struct {
	// Tamper, if set before the first script, says what becomes of each: the tests
	// of the simulator plant mistakes with it.
	Tamper func(source string) string
	// Added, if set, is told of each entry that is added to a stream, and of each
	// command that adds to a sorted set. It must not send commands.
	Added func(key string, fields []string)
	// Watch is told of what happens to entries and keys that others may need.
	Watch Watch

	// Page is how many of what is scanned are replied at once; 0: all.
	Page int
	// Waited says that whoever sends a read that waits has let it wait before.
	Waited bool
	// Node is how many entries a node of a stream takes, as stream-node-max-entries says:
	// trimming about takes out whole ones. 0: 100, as Redis has it unless told otherwise.
	Node int

	// lock makes one command, and so one script, the unit of interleaving.
	lock     sync.Mutex
	commands map[string]command
	latest   word // that began a command
	keys     map[string]*item
	now      time.Time
	ms       int64 // likewise, since 1970
	scripts  map[string]*loaded
	known    map[string]*loaded // besides; it is not changed
	time     []string           // what TIME replies; nil: nobody has asked since the clock was set
	fields   []string           // of the entries that were added last
	fleeting bool               // nobody keeps a reply beyond the next command
	*scratch

	closed bool
}

// item is the value of a key: a *text, *hash, *set, *sorted, *list or *stream.
type item struct {
	value   any
	expires int64 // in milliseconds since 1970; 0: never
}

// command is how a command is carried out. arity counts its name: so many
// arguments, or at least so many if it is negative.
type command struct {
	run   func(s *Server, args []string) resp.Reply
	arity int
}

// word is what begins a command, and means it.
type word struct {
	name string
	command
}

func (c command) takes(count int) bool {
	return count == c.arity || c.arity < 0 && count >= -c.arity
}

// New is an empty Redis whose clock shows start.
func New(start time.Time) *Server {
	s := &Server{commands: commands(), keys: map[string]*item{}, scripts: map[string]*loaded{}, scratch: unused()}
	s.runner.Redis = s.carryOut
	s.setTime(start)
	return s
}

// commands are those that there are, by their names in small and in large letters.
//
//nolint:gochecknoglobals // it is made once for all servers, and does not change
var commands = sync.OnceValue(func() map[string]command {
	all := map[string]command{}
	for _, some := range []map[string]command{
		keyCommands(), serverCommands(), textCommands(), hashCommands(), setCommands(), sortedCommands(), listCommands(),
		streamCommands(), groupCommands(), scriptCommands(),
	} {
		for name, c := range some {
			all[name], all[strings.ToUpper(name)] = c, c
		}
	}
	return all
})

// Close ends it: connections fail from then on.
func (s *Server) Close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.runner.Close()
	s.reply = resp.Reply{}
	clear(s.parts[:cap(s.parts)])
	s.vacate()
	s.fields = nil
	scratches.Put(s.scratch)
	s.scratch = nil
}

// scratch is room for what a server does. It says nothing about it, and serves one
// after the other.
type scratch struct {
	args   []string     // of the command that is answered
	reply  resp.Reply   // to it …
	sent   []byte       // … as it is sent
	parts  []resp.Reply // of the reply to the last command, where it is fleeting
	runner lua.Runner

	blocks [][]string // that fields of entries stand in
	begun  int        // of these
}

//nolint:gochecknoglobals // a pool of what is empty
var scratches sync.Pool

// unused is room that nobody uses.
func unused() *scratch {
	if s, ok := scratches.Get().(*scratch); ok {
		return s
	}
	return &scratch{}
}

// SetTime moves the clock that TIME, stream ids, idle times and expiry follow.
func (s *Server) SetTime(t time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.setTime(t)
}

func (s *Server) setTime(t time.Time) { s.now, s.ms, s.time = t, t.UnixMilli(), nil }

// Now is the time that was set last.
func (s *Server) Now() time.Time {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.now
}

// Do carries a command out.
func (s *Server) Do(args ...string) resp.Reply {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.carryOut(args)
}

// carryOut is the way of every command, those of scripts too. It keeps nothing of
// the slice args.
func (s *Server) carryOut(args []string) resp.Reply {
	c, ok := s.command(args[0])
	switch {
	case !ok:
		return resp.Fail("ERR unknown command '" + args[0] + "': the simulator does not have it")
	case !c.takes(len(args)):
		return resp.Fail("ERR wrong number of arguments for '" + strings.ToLower(args[0]) + "' command")
	default:
		s.parts = s.parts[:0]
		return c.run(s, args)
	}
}

// command is that of a name: scripts send many in a row that have the same one.
func (s *Server) command(name string) (c command, ok bool) {
	if name == s.latest.name {
		return s.latest.command, true
	}
	if c, ok = s.commands[name]; !ok {
		c, ok = s.commands[strings.ToLower(name)]
	}
	if ok {
		s.latest = word{name, c}
	}
	return c, ok
}

// What mistakes are answered with.
const (
	wrongType   = "WRONGTYPE Operation against a key holding the wrong kind of value"
	syntax      = "ERR syntax error"
	noInteger   = "ERR value is not an integer or out of range"
	noFloat     = "ERR value is not a valid float"
	noNumber    = "ERR hash value is not an integer"
	noFinite    = "ERR resulting score is not a number (NaN)"
	wouldOverWr = "ERR increment or decrement would overflow"
)

// item is what stands under a key; nil if nothing does.
func (s *Server) item(key string) *item {
	it := s.keys[key]
	if it != nil && it.expires != 0 && it.expires <= s.ms {
		delete(s.keys, key)
		return nil
	}
	return it
}

// find is the value of a key, nil if there is none. It reports false if the value
// is of another type.
func find[T any](s *Server, key string) (value *T, ok bool) {
	it := s.item(key)
	if it == nil {
		return nil, true
	}
	value, ok = it.value.(*T)
	return value, ok
}

// ensure is the value of a key, a new one if there is none. It reports false if
// the value is of another type.
func ensure[T any](s *Server, key string) (value *T, ok bool) {
	if it := s.item(key); it != nil {
		value, ok = it.value.(*T)
		return value, ok
	}
	value = new(T)
	s.keys[key] = &item{value: value}
	return value, true
}
