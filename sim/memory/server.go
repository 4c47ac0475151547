// Package memory is an in-memory Redis: it has no port and no socket, its clock stands still
// until it is set, and it executes each command immediately, on the caller's goroutine. Where a
// real Redis may return any order, it always returns the same one.
package memory

import (
	"net"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// Server is an in-memory Redis: it executes the commands of connections and of scripts on its
// database, one at a time. It has only database 0, and never blocks.
type Server struct {
	Database
	lua.Scripts

	// Cluster makes the server refuse what a Redis Cluster refuses: commands and scripts with keys
	// of several slots.
	Cluster bool

	running bool // a script is running
	slot    int  // of the keys of the running script; anySlot if it has none

	// lock makes one command, and so one script, the unit of interleaving.
	lock     sync.Mutex
	commands map[string]command

	closed bool
}

// command is the implementation of a command. arity is the number of its arguments
// including the name; if negative, the minimum.
type command struct {
	run   func(db *Database, args []string) resp.Reply // nil: the command is about scripts
	arity int
}

func (c command) takes(count int) bool {
	return count == c.arity || c.arity < 0 && count >= -c.arity
}

// New returns an empty Redis whose clock is at start.
func New(start time.Time) *Server {
	s := &Server{commands: commands(), slot: anySlot}
	s.keys, s.scratch = map[string]*item{}, newScratch()
	s.runner.Redis = s.execute
	s.setTime(start)
	return s
}

// commands returns all commands by their names, in lower and upper case.
//
//nolint:gochecknoglobals // made once for all servers, and never changed
var commands = sync.OnceValue(func() map[string]command {
	all := map[string]command{}
	for _, some := range []map[string]command{
		keyCommands(), serverCommands(), textCommands(), hashCommands(), setCommands(), sortedCommands(),
		streamCommands(), groupCommands(), scriptCommands(),
	} {
		for name, c := range some {
			all[name], all[strings.ToUpper(name)] = c, c
		}
	}
	return all
})

// scriptCommands returns the commands that the server executes itself, see Server.onScripts.
func scriptCommands() map[string]command {
	return map[string]command{"eval": {nil, -3}, "evalsha": {nil, -3}, "script": {nil, -2}}
}

// Close releases the server's buffers. Its connections fail afterwards.
func (s *Server) Close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.runner.Redis = nil
	s.reply = resp.Reply{}
	scratches.Put(s.scratch)
	s.scratch = nil
}

// SetTime moves the clock that TIME, stream ids, idle times and expiry use.
func (s *Server) SetTime(t time.Time) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.setTime(t)
}

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
	return s.execute(args)
}

// Dial opens a new connection. It executes commands on the caller's goroutine.
func (s *Server) Dial() net.Conn { return resp.NewConn(s.Execute) }

// Execute executes a command and appends its reply. There are no transactions.
func (s *Server) Execute(args []string, replies []byte) ([]byte, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	reply := s.execute(args)
	return reply.Append(replies), nil
}

// execute executes any command, including those of scripts. It does not keep args.
func (s *Server) execute(args []string) resp.Reply {
	c, ok := s.commands[args[0]]
	if !ok {
		c, ok = s.commands[strings.ToLower(args[0])]
	}
	switch {
	case !ok:
		return resp.Fail("ERR unknown command '" + args[0] + "': the simulator does not support it")
	case !c.takes(len(args)):
		return resp.Fail("ERR wrong number of arguments for '" + strings.ToLower(args[0]) + "' command")
	}
	if s.Cluster {
		if refusal, refused := s.crosses(args); refused {
			return refusal
		}
	}
	if c.run == nil {
		return s.onScripts(args)
	}
	return c.perform(&s.Database, args)
}

// refusal is the value with which a command panics that Redis refuses: the error message.
type refusal string

func refuse(message string) { panic(refusal(message)) }

// perform executes a command on a database.
func (c command) perform(db *Database, args []string) (reply resp.Reply) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			reply = resp.Fail(string(r))
		default:
			panic(r)
		}
	}()
	return c.run(db, args)
}

// onScripts executes the commands about scripts.
func (s *Server) onScripts(args []string) resp.Reply {
	if s.Cluster {
		if keys := keysOf(args); len(keys) > 0 {
			s.slot = slotOf(keys[0])
		}
		s.running = true
		defer func() { s.running, s.slot = false, anySlot }()
	}
	return s.Scripts.Execute(&s.runner, args[0], args[1:])
}

// Error messages of Redis.
const (
	wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	syntax    = "ERR syntax error"
	noInteger = "ERR value is not an integer or out of range"
	noFloat   = "ERR value is not a valid float"
	noNumber  = "ERR hash value is not an integer"
	overflow  = "ERR increment or decrement would overflow"
)
