package editor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
)

// connection carries the messages of the Language Server Protocol: JSON-RPC 2.0, each message
// after a header with its length.
type connection struct {
	in  *bufio.Reader
	out io.Writer
}

// message is a request, a notification (without an id) or a response.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is the error of a response.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// Codes of errors.
const (
	codeParse         = -32700
	codeInvalid       = -32600
	codeUnknownMethod = -32601
	codeParams        = -32602
)

// maxMessage is the largest message that is read, in bytes.
const maxMessage = 64 << 20

// read returns the next message; io.EOF if there is none. An *rpcError concerns one message only;
// later messages can still be read.
func (c *connection) read() (m message, err error) {
	header, err := textproto.NewReader(c.in).ReadMIMEHeader()
	if err != nil {
		if len(header) == 0 && errors.Is(err, io.EOF) {
			return m, io.EOF
		}
		return m, fmt.Errorf("read a header: %w", err)
	}
	size, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil || size < 0 || size > maxMessage {
		return m, fmt.Errorf("read a header: Content-Length is %q", header.Get("Content-Length"))
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return m, fmt.Errorf("read a message: %w", err)
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, &rpcError{codeParse, err.Error()}
	}
	return m, nil
}

func (c *connection) write(m message) error {
	m.Version = "2.0"
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	if _, err := fmt.Fprintf(c.out, "Content-Length: %d\r\n\r\n%s", body.Len(), body.Bytes()); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	return nil
}

// respond answers a request.
func (c *connection) respond(id json.RawMessage, result any, err error) error {
	m := message{ID: id}
	if err == nil {
		m.Result, err = json.Marshal(result)
	}
	if err != nil {
		known, ok := errors.AsType[*rpcError](err)
		if !ok {
			known = &rpcError{codeInvalid, err.Error()}
		}
		m.Error, m.Result = known, nil
	}
	return c.write(m)
}

// notify sends a notification.
func (c *connection) notify(method string, params any) error {
	encoded, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	return c.write(message{Method: method, Params: encoded})
}
