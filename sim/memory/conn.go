package memory

import (
	"errors"
	"net"
	"strings"
	"time"

	"flunq.io/flunq/sim/resp"
)

// ErrNoReply is what a Read gets that could only be answered by a later Write.
var ErrNoReply = errors.New("in-memory redis: read without a reply to come")

// conn is a connection. A Write carries out the commands in it, on the caller's
// goroutine; a Read returns what they replied.
type conn struct {
	server  *Server
	replies []byte
	read    int // of the replies
	partial []byte
	queued  [][]string // of a transaction; nil: there is none
	spoiled bool       // one of the queued commands was refused
	closed  bool
}

// Dial opens a connection with a state of its own.
func (s *Server) Dial() net.Conn { return &conn{server: s} }

// Write carries out the commands that p completes.
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

// command carries out a command, or puts it off until EXEC.
func (c *conn) command(args []string) resp.Reply {
	name := strings.ToUpper(args[0])
	if c.queued == nil {
		switch name {
		case "MULTI":
			c.queued, c.spoiled = [][]string{}, false
			return resp.OK()
		case "EXEC", "DISCARD":
			return resp.Fail("ERR " + name + " without MULTI")
		}
		return c.server.carryOut(args)
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
		c.spoiled = true
		return resp.Fail("ERR unknown command '" + args[0] + "', or a wrong number of arguments")
	}
	c.queued = append(c.queued, args)
	return resp.Reply{Kind: resp.Status, Text: "QUEUED"}
}

// exec carries a transaction out.
func (c *conn) exec() resp.Reply {
	queued := c.queued
	c.queued = nil
	if c.spoiled {
		return resp.Fail("EXECABORT Transaction discarded because of previous errors.")
	}
	out := make([]resp.Reply, len(queued))
	for i, args := range queued {
		out[i] = c.server.carryOut(args)
	}
	return resp.List(out...)
}

// Read returns replies to what was written.
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

// LocalAddr is nobody's.
func (*conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr is nobody's.
func (*conn) RemoteAddr() net.Addr { return address{} }

// SetDeadline is accepted: nothing here waits.
func (*conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline is accepted: nothing here waits.
func (*conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is accepted: nothing here waits.
func (*conn) SetWriteDeadline(time.Time) error { return nil }

// address is that of what has none.
type address struct{}

// Network names no network.
func (address) Network() string { return "memory" }

// String names no place.
func (address) String() string { return "memory" }
