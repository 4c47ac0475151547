package wire

import (
	"bytes"
	"errors"
	"strings"
)

// ErrReply reports a reply that does not have the form of its command's replies.
var ErrReply = errors.New("the reply cannot be read")

// Reply parses a reply of Redis (RESP 2 or 3) in place. go-redis makes a map of each stream entry and a
// string of each of its fields, even unused ones, which costs more than everything else that is done
// with most entries.
type Reply struct {
	text []byte
	at   int
	bad  bool // what was read so far is not a reply

	mapped bool // the reply maps names to streams, as in RESP 3
}

// Bad reports whether what was read so far has an unexpected form.
func (r *Reply) Bad() bool { return r.bad }

// Len returns the length of the reply in bytes.
func (r *Reply) Len() int { return len(r.text) }

// Position returns the number of bytes read.
func (r *Reply) Position() int { return r.at }

// ErrorReply is an error that Redis has replied, such as "NOGROUP No such consumer group".
type ErrorReply string

func (e ErrorReply) Error() string { return string(e) }

// RedisError implements redis.Error.
func (ErrorReply) RedisError() {}

// Err returns the ErrorReply if the reply is one, otherwise nil. Most commands return their error
// themselves, but those of a Buffer return any reply unchanged.
func (r *Reply) Err() error {
	if len(r.text) == 0 || r.text[0] != '-' {
		return nil
	}
	return ErrorReply(strings.TrimSpace(string(r.text[1:])))
}

// head reads the beginning of a value: its kind, and its number or length, which is negative for a
// null value.
func (r *Reply) head() (kind byte, n int) {
	end := bytes.IndexByte(r.text[r.at:], '\n')
	if r.bad || end < 2 {
		r.bad = true
		return 0, -1
	}
	line := r.text[r.at : r.at+end-1]
	r.at += end + 1
	if line[0] == '_' {
		return '_', -1
	}
	n, sign := 0, 1
	for i, c := range line[1:] {
		switch {
		case i == 0 && c == '-':
			sign = -1
		case c >= '0' && c <= '9':
			n = 10*n + int(c-'0')
		default:
			r.bad = true
			return 0, -1
		}
	}
	return line[0], sign * n
}

// List reads the beginning of a list, or of a map as a list of names and values, and returns its
// length, -1 for null.
func (r *Reply) List() int {
	kind, n := r.head()
	switch kind {
	case '*', '_':
		return n
	case '%':
		return 2 * n
	default:
		r.bad = true
		return -1
	}
}

// Streams reads the beginning of a reply to XREADGROUP and returns the number of streams.
func (r *Reply) Streams() int {
	if len(r.text) == 0 {
		return 0
	}
	r.mapped = r.text[0] == '%'
	n := r.List()
	if r.mapped {
		n /= 2
	}
	return n
}

// Stream reads the beginning of a stream: its name and the number of its entries.
func (r *Reply) Stream() (name []byte, entries int) {
	if !r.mapped && r.List() != 2 {
		r.bad = true
	}
	name = r.of(r.bulk())
	return name, r.List()
}

// span is a part of a reply.
type span struct{ from, to int }

// bulk reads a string.
func (r *Reply) bulk() span {
	kind, n := r.head()
	if kind != '$' || n < 0 || r.at+n+2 > len(r.text) {
		r.bad = true
		return span{}
	}
	s := span{r.at, r.at + n}
	r.at += n + 2
	return s
}

func (r *Reply) of(s span) []byte { return r.text[s.from:s.to] }

// Entry is an entry of a stream within a reply.
type Entry struct {
	reply  *Reply
	id     span
	fields []span // name after name with its value; they are overwritten by the next entry
	whole  span   // from the first field to the end of the last
}

// Entry reads an entry and overwrites the previous one.
func (r *Reply) Entry(e *Entry) {
	e.reply, e.fields = r, e.fields[:0]
	if r.List() != 2 {
		r.bad = true
		return
	}
	e.id = r.bulk()
	n := r.List()
	e.whole = span{r.at, r.at}
	for range n {
		e.fields = append(e.fields, r.bulk())
	}
	e.whole.to = r.at
}

// ID returns the id of the entry.
func (e *Entry) ID() string { return string(e.reply.of(e.id)) }

// Field returns the value of a field, or nil if there is none.
func (e *Entry) Field(name string) []byte {
	var found []byte
	for i := 0; i+1 < len(e.fields); i += 2 {
		if string(e.reply.of(e.fields[i])) == name {
			found = e.reply.of(e.fields[i+1])
		}
	}
	return found
}

// Fields returns the names and values of the fields, in their order.
func (e *Entry) Fields() []string {
	out, text := make([]string, len(e.fields)), string(e.reply.of(e.whole))
	for i, field := range e.fields {
		out[i] = text[field.from-e.whole.from : field.to-e.whole.from]
	}
	return out
}
