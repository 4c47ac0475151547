// Package mini runs miniredis with the scripts and connections of sim: one Lua state that is kept
// between calls, and commands that are executed on the caller's goroutine.
package mini

import (
	"bufio"
	"bytes"
	"fmt"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// Server is a miniredis. It runs scripts itself, since miniredis makes a new Lua state for each
// call, which takes 0.3 ms; with the state kept it takes 0.02 ms.
type Server struct {
	*miniredis.Miniredis

	// Before, if set, is called before each command of a client, on its goroutine. The commands
	// of scripts are not commands of a client.
	Before func(name string, args []string)

	// Added, if set, is called for each entry that Execute adds to a stream, and for each command
	// that adds to a sorted set. It must not send commands.
	Added func(key string, fields []string)

	srv       *server.Server
	scripts   lua.Scripts       // guarded by the lock of miniredis
	positions map[reader]string // the last entries that groups have read
	*workspace
}

// workspace holds the parts of a server that the next one can reuse.
type workspace struct {
	runner lua.Runner // guarded by the lock of miniredis
	nested peer       // sends the commands of scripts, while miniredis is locked
	caller peer       // sends the commands of Execute
}

//nolint:gochecknoglobals // a pool of empty buffers and idle Lua states
var workspaces sync.Pool

// New starts an empty miniredis without a port.
func New() (*Server, error) {
	s := &Server{Miniredis: miniredis.NewMiniRedis(), positions: map[reader]string{}}
	if err := start(s.Miniredis); err != nil {
		return nil, err
	}
	var ok bool
	if s.workspace, ok = workspaces.Get().(*workspace); !ok {
		s.workspace = new(workspace)
	}
	s.nested.connect(scriptContext())
	s.caller.connect(nil)
	s.runner.Redis = s.nestedCommand
	s.srv = s.Server()
	s.srv.SetPreHook(s.before)
	return s, nil
}

// start starts miniredis without a port, which only Dial does.
func start(m *miniredis.Miniredis) error {
	first, err := m.Dial()
	if err != nil {
		return fmt.Errorf("start miniredis: %w", err)
	}
	return first.Close()
}

// Close stops the server.
func (s *Server) Close() {
	s.Miniredis.Close()
	if s.workspace == nil {
		return
	}
	s.runner.Redis = nil
	workspaces.Put(s.workspace)
	s.workspace = nil
}

// Preload makes scripts available by their SHA1, as if they were loaded already. It keeps the map.
func (s *Server) Preload(sources map[string]string) { s.scripts.Preload(sources) }

// Execute executes a command on the caller's goroutine and appends its reply. Only one goroutine
// may call it at a time.
func (s *Server) Execute(args []string, replies []byte) ([]byte, error) {
	reply := s.caller.send(s.srv, args)
	s.note(args, reply)
	return append(replies, reply...), nil
}

// do executes a command like Execute.
func (s *Server) do(args ...string) (resp.Reply, error) {
	r := resp.Reader{Text: string(s.caller.send(s.srv, args))}
	return r.Reply()
}

// peer is a client of miniredis inside this process.
type peer struct {
	*server.Peer

	replies bytes.Buffer
}

// connect makes it a new client, with the state that miniredis keeps for it; nil for none.
func (p *peer) connect(context any) {
	p.Peer = server.NewPeer(bufio.NewWriter(&p.replies))
	p.Ctx = context
}

// send executes a command and returns its reply, which is valid until the next one.
func (p *peer) send(to *server.Server, args []string) []byte {
	p.replies.Reset()
	to.Dispatch(p.Peer, args)
	p.Flush()
	return p.replies.Bytes()
}
