package sim

import (
	"bytes"
	"errors"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// errNoReply is what a Read gets that could only be answered by a later Write.
var errNoReply = errors.New("in-memory redis: read without a reply to come")

// memoryConn is a connection to the in-memory Redis. A Write carries out the
// commands in it, on the caller's goroutine; a Read returns what they replied.
type memoryConn struct {
	memory  *memory
	peer    *server.Peer
	replies bytes.Buffer
	partial []byte
	queuing bool
	closed  bool
}

// Write carries out the commands that p completes.
func (c *memoryConn) Write(p []byte) (int, error) {
	c.memory.lock.Lock()
	defer c.memory.lock.Unlock()
	if c.closed || c.memory.closed {
		return 0, net.ErrClosed
	}
	data := p
	if len(c.partial) > 0 {
		c.partial = append(c.partial, p...)
		data = c.partial
	}
	reader := respReader{text: string(data)}
	for {
		args, err := reader.command()
		if err != nil {
			return 0, err
		}
		if args == nil {
			break
		}
		c.memory.command(c, args)
	}
	c.partial = append(c.partial[:0], data[reader.pos:]...)
	c.peer.Flush()
	return len(p), nil
}

// Read returns replies to what was written.
func (c *memoryConn) Read(p []byte) (int, error) {
	c.memory.lock.Lock()
	defer c.memory.lock.Unlock()
	if c.closed || c.memory.closed {
		return 0, net.ErrClosed
	}
	if c.replies.Len() == 0 {
		return 0, errNoReply
	}
	return c.replies.Read(p)
}

// Close makes Read and Write fail.
func (c *memoryConn) Close() error {
	c.memory.lock.Lock()
	defer c.memory.lock.Unlock()
	c.closed = true
	return nil
}

// LocalAddr is nobody's.
func (*memoryConn) LocalAddr() net.Addr { return memoryAddr{} }

// RemoteAddr is nobody's.
func (*memoryConn) RemoteAddr() net.Addr { return memoryAddr{} }

// SetDeadline is accepted: nothing here waits.
func (*memoryConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline is accepted: nothing here waits.
func (*memoryConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is accepted: nothing here waits.
func (*memoryConn) SetWriteDeadline(time.Time) error { return nil }

// memoryAddr is the address of what has none.
type memoryAddr struct{}

// Network names no network.
func (memoryAddr) Network() string { return "memory" }

// String names no place.
func (memoryAddr) String() string { return "memory" }
