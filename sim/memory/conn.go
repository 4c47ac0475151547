package memory

import (
	"net"

	"flunq.io/flunq/sim/resp"
)

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
