package resp

import (
	"errors"
	"net"
	"sync"
	"time"
)

// ErrNoReply is returned by Read if there is no reply. Waiting would not help, because only
// Write produces replies.
var ErrNoReply = errors.New("in-memory redis: no reply to read")

// conn is a connection to a Redis inside this process.
type conn struct {
	execute func(args []string, replies []byte) ([]byte, error)

	lock    sync.Mutex
	replies []byte
	read    int // number of bytes of replies that have been read
	partial []byte
	closed  bool
}

// NewConn returns a connection whose Write executes commands on the caller's goroutine, and whose
// Read returns their replies: execute appends the reply to a command to replies. After an
// error of execute the connection fails.
func NewConn(execute func(args []string, replies []byte) ([]byte, error)) net.Conn {
	return &conn{execute: execute}
}

// Write executes the commands that p completes.
func (c *conn) Write(p []byte) (int, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	data := p
	if len(c.partial) > 0 {
		c.partial = append(c.partial, p...)
		data = c.partial
	}
	reader := Reader{Text: string(data)}
	for {
		args, err := reader.Command()
		if err != nil {
			return 0, err
		}
		if args == nil {
			break
		}
		if len(args) == 0 {
			continue
		}
		if c.replies, err = c.execute(args, c.replies); err != nil {
			c.closed = true
			return 0, err
		}
	}
	c.partial = append(c.partial[:0], data[reader.Pos:]...)
	return len(p), nil
}

// Read returns replies to the commands that were written.
func (c *conn) Read(p []byte) (int, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.closed {
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
	c.lock.Lock()
	defer c.lock.Unlock()
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
