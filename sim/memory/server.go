// Package memory is a Redis inside the process: it has no port and no socket, its clock
// stands still until it is moved, and it executes each command at once on the caller's
// goroutine. Where a real Redis may choose any order, it always chooses the same.
package memory

import (
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// Server is an in-memory Redis. It has database 0 only, and never blocks.
type Server struct {
	// Tamper, if set before the first script is loaded, changes the source of each: the
	// tests of the simulator plant mistakes with it.
	Tamper func(source string) string
	// Added, if set, is called for each entry that is added to a stream, and for each
	// command that adds to a sorted set. It must not send commands.
	Added func(key string, fields []string)
	// Watch is called when something happens to entries and keys that others may need.
	Watch Watch

	// Page is how many elements a SCAN command returns at once; 0: all.
	Page int
	// Waited means that the caller implements BLOCK: it waits before it sends a read.
	Waited bool
	// Node is how many entries a node of a stream has, like stream-node-max-entries:
	// approximate trimming removes whole nodes only. 0: 100, the default of Redis.
	Node int

	// lock makes one command, and so one script, the unit of interleaving.
	lock     sync.Mutex
	commands map[string]command
	latest   word // the command that was looked up last
	keys     map[string]*item
	now      time.Time
	ms       int64 // now in milliseconds since 1970
	scripts  map[string]*loaded
	known    map[string]*loaded // further scripts; not changed
	time     []string           // the reply of TIME; nil: not computed since the clock was set
	fields   []string           // of the entries that were added last
	fleeting bool               // no caller keeps a reply beyond the next command
	*scratch

	closed bool
}

// item is the value of a key: a *text, *hash, *set, *sorted, *list or *stream.
type item struct {
	value   any
	expires int64 // in milliseconds since 1970; 0: never
}

// command is the implementation of a command. arity is the number of its arguments
// including the name; if negative, the minimum.
type command struct {
	run   func(s *Server, args []string) resp.Reply
	arity int
}

// word is a command and its name.
type word struct {
	name string
	command
}

func (c command) takes(count int) bool {
	return count == c.arity || c.arity < 0 && count >= -c.arity
}

// New returns an empty Redis whose clock is at start.
func New(start time.Time) *Server {
	s := &Server{commands: commands(), keys: map[string]*item{}, scripts: map[string]*loaded{}, scratch: unused()}
	s.runner.Redis = s.carryOut
	s.setTime(start)
	return s
}

// commands returns all commands by their names, in lower and upper case.
//
//nolint:gochecknoglobals // made once for all servers, and never changed
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

// Close releases the server's buffers. Connections fail from then on.
func (s *Server) Close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.runner.Redis = nil
	s.reply = resp.Reply{}
	clear(s.parts[:cap(s.parts)])
	s.vacate()
	s.fields = nil
	scratches.Put(s.scratch)
	s.scratch = nil
}

// scratch holds the buffers of a server, which are reused by later servers.
type scratch struct {
	args   []string     // of the current command
	reply  resp.Reply   // to the current command …
	sent   []byte       // … as it is sent
	parts  []resp.Reply // of the reply to the last command, while fleeting
	runner lua.Runner

	blocks [][]string // buffers for the fields of entries
	begun  int        // number of blocks in use
}

//nolint:gochecknoglobals // a pool of empty buffers
var scratches sync.Pool

// unused returns buffers from the pool, or new ones.
func unused() *scratch {
	if s, ok := scratches.Get().(*scratch); ok {
		return s
	}
	return &scratch{}
}

// SetTime moves the clock that TIME, stream ids, idle times and expiry use.
func (s *Server) SetTime(t time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.setTime(t)
}

func (s *Server) setTime(t time.Time) { s.now, s.ms, s.time = t, t.UnixMilli(), nil }

// Now returns the time that was set last.
func (s *Server) Now() time.Time {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.now
}

// Do executes a command.
func (s *Server) Do(args ...string) resp.Reply {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.carryOut(args)
}

// carryOut executes any command, including those of scripts. It does not keep args.
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

// command looks up a command. It remembers the last one, because scripts repeat commands.
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

// Error messages of Redis.
const (
	wrongType   = "WRONGTYPE Operation against a key holding the wrong kind of value"
	syntax      = "ERR syntax error"
	noInteger   = "ERR value is not an integer or out of range"
	noFloat     = "ERR value is not a valid float"
	noNumber    = "ERR hash value is not an integer"
	noFinite    = "ERR resulting score is not a number (NaN)"
	wouldOverWr = "ERR increment or decrement would overflow"
)

// item returns the item of a key; nil if there is none or it has expired.
func (s *Server) item(key string) *item {
	it := s.keys[key]
	if it != nil && it.expires != 0 && it.expires <= s.ms {
		delete(s.keys, key)
		return nil
	}
	return it
}

// find returns the value of a key, nil if there is none. It returns false if the value
// has another type.
func find[T any](s *Server, key string) (value *T, ok bool) {
	it := s.item(key)
	if it == nil {
		return nil, true
	}
	value, ok = it.value.(*T)
	return value, ok
}

// ensure returns the value of a key, and creates it if there is none. It returns false if
// the value has another type.
func ensure[T any](s *Server, key string) (value *T, ok bool) {
	if it := s.item(key); it != nil {
		value, ok = it.value.(*T)
		return value, ok
	}
	value = new(T)
	s.keys[key] = &item{value: value}
	return value, true
}
