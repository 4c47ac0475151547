package memory

import (
	"net"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// Dial opens a new connection. It executes commands on the caller's goroutine.
func (s *Server) Dial() net.Conn { return resp.NewConn((&transaction{server: s}).execute) }

// Execute executes a command and appends its reply. It knows no transactions.
func (s *Server) Execute(args []string, replies []byte) ([]byte, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	reply := s.execute(args)
	return reply.Append(replies), nil
}

// transaction is the state of a connection.
type transaction struct {
	server  *Server
	queued  [][]string // by MULTI; nil: no transaction
	invalid bool       // one of the queued commands is invalid
}

// execute executes a command and appends its reply.
func (t *transaction) execute(args []string, replies []byte) ([]byte, error) {
	t.server.lock.Lock()
	defer t.server.lock.Unlock()
	if t.server.closed {
		return nil, net.ErrClosed
	}
	reply := t.command(args)
	return reply.Append(replies), nil
}

// command executes a command, or queues it until EXEC.
func (t *transaction) command(args []string) resp.Reply {
	name := strings.ToUpper(args[0])
	if t.queued == nil {
		switch name {
		case "MULTI":
			t.queued, t.invalid = [][]string{}, false
			return resp.OK()
		case "EXEC", "DISCARD":
			return resp.Fail("ERR " + name + " without MULTI")
		}
		return t.server.execute(args)
	}
	switch name {
	case "MULTI":
		return resp.Fail("ERR MULTI calls can not be nested")
	case "DISCARD":
		t.queued = nil
		return resp.OK()
	case "EXEC":
		return t.exec()
	}
	known, ok := t.server.commands[strings.ToLower(name)]
	if !ok || !known.takes(len(args)) {
		t.invalid = true
		return resp.Fail("ERR unknown command '" + args[0] + "', or a wrong number of arguments")
	}
	t.queued = append(t.queued, args)
	return resp.Reply{Kind: resp.Status, Text: "QUEUED"}
}

// exec executes a transaction.
func (t *transaction) exec() resp.Reply {
	queued := t.queued
	t.queued = nil
	if t.invalid {
		return resp.Fail("EXECABORT Transaction discarded because of previous errors.")
	}
	out := make([]resp.Reply, len(queued))
	for i, args := range queued {
		out[i] = t.server.execute(args)
	}
	return resp.List(out...)
}
