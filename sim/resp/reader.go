package resp

import (
	"errors"
	"strconv"
	"strings"
)

// errProtocol means that a client sent something other than commands.
var errProtocol = errors.New("not the redis protocol")

// Reader parses commands and replies. The strings it returns are parts of Text, not copies.
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
		return nil, errProtocol
	}
	count, err := strconv.Atoi(line[1:])
	if err != nil || count < 0 {
		return nil, errProtocol
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

// Reply returns the next reply, which must be complete.
func (r *Reader) Reply() (Reply, error) {
	line, ok := r.line()
	if !ok || line == "" {
		return Reply{}, errProtocol
	}
	switch line[0] {
	case '+':
		return Reply{Kind: Status, Text: line[1:]}, nil
	case '-':
		return Fail(line[1:]), nil
	}
	n, err := strconv.ParseInt(line[1:], 10, 64)
	switch {
	case err != nil:
		return Reply{}, errProtocol
	case line[0] == ':':
		return Reply{Kind: Integer, Int: n}, nil
	case line[0] == '$' && n < 0:
		return Reply{}, nil
	case line[0] == '$' && len(r.Text)-r.Pos >= int(n)+2:
		return Text(r.take(int(n))), nil
	case line[0] == '*' && n < 0:
		return Reply{Kind: NilArray}, nil
	case line[0] == '*' && n <= int64(len(r.Text)):
		return r.array(int(n))
	default:
		return Reply{}, errProtocol
	}
}

// array returns an array of the next n replies.
func (r *Reader) array(n int) (Reply, error) {
	list := make([]Reply, n)
	for i := range list {
		var err error
		if list[i], err = r.Reply(); err != nil {
			return Reply{}, err
		}
	}
	return List(list...), nil
}

// bulk returns the next bulk string; false if it is incomplete.
func (r *Reader) bulk() (string, bool, error) {
	line, ok := r.line()
	if !ok {
		return "", false, nil
	}
	if line == "" || line[0] != '$' {
		return "", false, errProtocol
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil || size < 0 {
		return "", false, errProtocol
	}
	if len(r.Text)-r.Pos < size+2 {
		return "", false, nil
	}
	return r.take(size), true, nil
}

// take returns the next size bytes and skips the line ending after them.
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
