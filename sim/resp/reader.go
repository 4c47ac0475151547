package resp

import (
	"errors"
	"strconv"
	"strings"
)

// ErrProtocol means that a client sent something other than commands.
var ErrProtocol = errors.New("not the redis protocol")

// Reader parses commands. The strings it returns are parts of Text, not copies.
type Reader struct {
	Text string
	Pos  int // where unread text begins
}

// Command returns the next command. If it is incomplete, Command returns nil and does not
// move Pos.
func (r *Reader) Command() ([]string, error) {
	start := r.Pos
	line, ok := r.line()
	if !ok {
		return nil, nil
	}
	if line == "" || line[0] != '*' {
		return nil, ErrProtocol
	}
	count, err := strconv.Atoi(line[1:])
	if err != nil || count < 0 {
		return nil, ErrProtocol
	}
	args := make([]string, 0, min(count, len(r.Text)))
	for range count {
		arg, ok, err := r.bulk()
		if err != nil {
			return nil, err
		}
		if !ok {
			r.Pos = start
			return nil, nil
		}
		args = append(args, arg)
	}
	return args, nil
}

// bulk returns the next bulk string; false if it is incomplete.
func (r *Reader) bulk() (string, bool, error) {
	line, ok := r.line()
	if !ok {
		return "", false, nil
	}
	if line == "" || line[0] != '$' {
		return "", false, ErrProtocol
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil || size < 0 {
		return "", false, ErrProtocol
	}
	if len(r.Text)-r.Pos < size+2 {
		return "", false, nil
	}
	return r.take(size), true, nil
}

// take returns the next size bytes and skips the line end after them.
func (r *Reader) take(size int) string {
	part := r.Text[r.Pos : r.Pos+size]
	r.Pos += size + 2
	return part
}

// line returns the next line; false if it is incomplete.
func (r *Reader) line() (string, bool) {
	end := strings.Index(r.Text[r.Pos:], "\r\n")
	if end < 0 {
		return "", false
	}
	return r.take(end), true
}
