package dev

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// Limits on what a client may send. miniredis panics on malformed commands, and allocates
// memory for a string of any announced length.
const (
	longestLine  = 64 << 10
	maxArguments = 1 << 20
	longestText  = 64 << 20
)

// listen serves clients on an address of this machine.
func (r *Redis) listen(address string) error {
	var err error
	if r.listener, err = net.Listen("tcp", address); err != nil {
		return fmt.Errorf("%w: %w", ErrTaken, err)
	}
	go func() {
		for {
			conn, err := r.listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				r.mini.Server().ServeConn(&client{Conn: conn, in: bufio.NewReaderSize(conn, longestLine)})
			}
		}
	}()
	return nil
}

// client is a connection that forwards only well-formed commands: arrays of strings.
type client struct {
	net.Conn
	in   *bufio.Reader
	line []byte // checked but not yet forwarded
	args int    // remaining arguments of the command
	text int    // remaining bytes of the argument, including the line break
}

// Read implements net.Conn. After a malformed command it sends the client an error and returns
// io.EOF.
func (c *client) Read(p []byte) (int, error) {
	for len(c.line) == 0 && c.text == 0 {
		if err := c.next(); err != nil {
			if malformed, ok := errors.AsType[protocolError](err); ok {
				_, _ = fmt.Fprintf(c.Conn, "-ERR Protocol error: %s\r\n", malformed)
				return 0, io.EOF
			}
			return 0, err
		}
	}
	if len(c.line) > 0 {
		n := copy(p, c.line)
		c.line = c.line[n:]
		return n, nil
	}
	n, err := c.in.Read(p[:min(len(p), c.text)])
	c.text -= n
	return n, err
}

// next reads and checks the line with the length of a command or of an argument.
func (c *client) next() error {
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return protocolError("the line is too long")
	case err != nil:
		return err
	case len(line) < 2 || line[len(line)-2] != '\r':
		return protocolError("the line does not end with \\r\\n")
	}
	n, err := strconv.Atoi(string(line[min(1, len(line)-2) : len(line)-2]))
	switch {
	case c.args == 0 && (line[0] != '*' || err != nil || n > maxArguments):
		return protocolError("expected '*' and the number of arguments")
	case c.args == 0 && n <= 0: // Redis ignores it
		return nil
	case c.args == 0:
		c.args = n
	case line[0] != '$' || err != nil || n < 0 || n > longestText:
		return protocolError("expected '$' and the length of an argument")
	default:
		c.args--
		c.text = n + len("\r\n")
	}
	c.line = append(c.line[:0], line...)
	return nil
}

type protocolError string

func (e protocolError) Error() string { return string(e) }
