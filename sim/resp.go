package sim

import (
	"errors"
	"strconv"
	"strings"
)

var errProtocol = errors.New("in-memory redis: not the redis protocol")

// respReader takes commands and replies apart. What it returns are parts of its
// text, not copies.
type respReader struct {
	text string
	pos  int
}

// command returns the next command, or nil, not having moved, while it is not
// complete.
func (r *respReader) command() ([]string, error) {
	start := r.pos
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
	args := make([]string, 0, count)
	for range count {
		arg, ok, err := r.bulk()
		if err != nil {
			return nil, err
		}
		if !ok {
			r.pos = start
			return nil, nil
		}
		args = append(args, arg)
	}
	return args, nil
}

// bulk returns the next bulk string, or false when it is not complete.
func (r *respReader) bulk() (string, bool, error) {
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
	if len(r.text)-r.pos < size+2 {
		return "", false, nil
	}
	return r.take(size), true, nil
}

// take returns the next size bytes and passes the line end behind them.
func (r *respReader) take(size int) string {
	part := r.text[r.pos : r.pos+size]
	r.pos += size + 2
	return part
}

// line returns the next line, or false when it is not complete.
func (r *respReader) line() (string, bool) {
	end := strings.Index(r.text[r.pos:], "\r\n")
	if end < 0 {
		return "", false
	}
	return r.take(end), true
}
