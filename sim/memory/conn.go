package memory

import (
	"errors"
	"net"
	"strings"
	"time"

	"flunq.io/flunq/sim/resp"
)

// ErrNoReply is returned by Read if there is no reply. Waiting would not help, because only
// Write produces replies.
var ErrNoReply = errors.New("in-memory redis: no reply to read")

// conn is a connection. Write executes commands on the caller's goroutine; Read returns
// their replies.
type conn struct {
	server  *Server
	replies []byte
	read    int // how much of replies has been read
	partial []byte
	queued  [][]string // by MULTI; nil: no transaction
	invalid bool       // one of the queued commands is invalid
	closed  bool
}

// Dial opens a new connection.
func (s *Server) Dial() net.Conn { return &conn{server: s} }

// Write executes the commands that p completes.
func (c *conn) Write(p []byte) (int, error) {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	if c.closed || c.server.closed {
		return 0, net.ErrClosed
	}
	data := p
	if len(c.partial) > 0 {
		c.partial = append(c.partial, p...)
		data = c.partial
	}
	reader := resp.Reader{Text: string(data)}
	for {
		args, err := reader.Command()
		if err != nil {
			return 0, err
		}
		if args == nil {
			break
		}
		if len(args) > 0 {
			reply := c.command(args)
			c.replies = reply.Append(c.replies)
		}
	}
	c.partial = append(c.partial[:0], data[reader.Pos:]...)
	return len(p), nil
}

// command executes a command, or queues it until EXEC.
func (c *conn) command(args []string) resp.Reply {
	name := strings.ToUpper(args[0])
	if c.queued == nil {
		switch name {
		case "MULTI":
			c.queued, c.invalid = [][]string{}, false
			return resp.OK()
		case "EXEC", "DISCARD":
			return resp.Fail("ERR " + name + " without MULTI")
		}
		return c.server.execute(args)
	}
	switch name {
	case "MULTI":
		return resp.Fail("ERR MULTI calls can not be nested")
	case "DISCARD":
		c.queued = nil
		return resp.OK()
	case "EXEC":
		return c.exec()
	}
	known, ok := c.server.commands[strings.ToLower(name)]
	if !ok || !known.takes(len(args)) {
		c.invalid = true
		return resp.Fail("ERR unknown command '" + args[0] + "', or a wrong number of arguments")
	}
	c.queued = append(c.queued, args)
	return resp.Reply{Kind: resp.Status, Text: "QUEUED"}
}

// exec executes a transaction.
func (c *conn) exec() resp.Reply {
	queued := c.queued
	c.queued = nil
	if c.invalid {
		return resp.Fail("EXECABORT Transaction discarded because of previous errors.")
	}
	out := make([]resp.Reply, len(queued))
	for i, args := range queued {
		out[i] = c.server.execute(args)
	}
	return resp.List(out...)
}

// Read returns replies to the commands that were written.
func (c *conn) Read(p []byte) (int, error) {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	if c.closed || c.server.closed {
		return 0, net.ErrClosed
	}
	if c.read == len(c.replies) {
		return 0, ErrNoReply
	}
	n := copy(p, c.replies[c.read:])
	if c.read += n; c.read == len(c.replies) {
		c.replies, c.read = c.replies[:0], 0
	}
	return n, nil
}

// Close makes Read and Write fail.
func (c *conn) Close() error {
	c.server.lock.Lock()
	defer c.server.lock.Unlock()
	c.closed = true
	return nil
}

// LocalAddr implements net.Conn.
func (*conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (*conn) RemoteAddr() net.Addr { return address{} }

// SetDeadline does nothing, because nothing blocks.
func (*conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing, because nothing blocks.
func (*conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, because nothing blocks.
func (*conn) SetWriteDeadline(time.Time) error { return nil }

// address is the address of both ends of a connection.
type address struct{}

// Network implements net.Addr.
func (address) Network() string { return "memory" }

// String implements net.Addr.
func (address) String() string { return "memory" }
