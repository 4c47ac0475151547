package store

import (
	"bytes"
	"errors"
)

// errReply says that a reply is not what its command replies.
var errReply = errors.New("the reply cannot be read")

// reply reads what Redis has sent (RESP 2 or 3) in place. go-redis makes a map of
// each entry of a stream and a text of each of its fields, also of those that
// nobody asks for, which costs more than all else that is done with most of them.
type reply struct {
	text []byte
	at   int
	bad  bool // what was read so far is no reply

	mapped bool // streams are by their names, as in RESP 3
}

// head reads the beginning of a value: its kind, and its number or length,
// negative for nothing.
func (r *reply) head() (kind byte, n int) {
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

// list reads the beginning of a list, or of a map as a list of names and values.
func (r *reply) list() int {
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

// streams reads the beginning of what XREADGROUP replies: how many streams follow.
func (r *reply) streams() int {
	if len(r.text) == 0 {
		return 0
	}
	r.mapped = r.text[0] == '%'
	n := r.list()
	if r.mapped {
		n /= 2
	}
	return n
}

// stream reads the beginning of one: its name, and how many entries follow.
func (r *reply) stream() (name span, entries int) {
	if !r.mapped && r.list() != 2 {
		r.bad = true
	}
	name = r.bulk()
	return name, r.list()
}

// span is a part of a reply.
type span struct{ from, to int }

// bulk reads a text.
func (r *reply) bulk() span {
	kind, n := r.head()
	if kind != '$' || n < 0 || r.at+n+2 > len(r.text) {
		r.bad = true
		return span{}
	}
	s := span{r.at, r.at + n}
	r.at += n + 2
	return s
}

func (r *reply) of(s span) []byte { return r.text[s.from:s.to] }

// rawEntry is an entry of a stream within a reply.
type rawEntry struct {
	reply  *reply
	id     span
	fields []span // name after name with its value; they are overwritten by the next entry
	whole  span   // from the first field to the end of the last
	named  []string
}

// fewSpans is how many fields most entries have at most, names and values.
const fewSpans = 32

// entry reads an entry and overwrites the previous one.
func (r *reply) entry(e *rawEntry) {
	e.reply, e.fields = r, e.fields[:0]
	if r.list() != 2 {
		r.bad = true
		return
	}
	e.id = r.bulk()
	n := r.list()
	e.whole = span{r.at, r.at}
	for range n {
		e.fields = append(e.fields, r.bulk())
	}
	e.whole.to = r.at
}

// field is the value of a field; nil if there is none.
func (e *rawEntry) field(name string) []byte {
	var found []byte
	for i := 0; i+1 < len(e.fields); i += 2 {
		if string(e.reply.of(e.fields[i])) == name {
			found = e.reply.of(e.fields[i+1])
		}
	}
	return found
}

// texts are the fields, until the next entry is read, the id, and the text of all
// fields. They share one string, so keeping one keeps only its own entry in memory.
func (e *rawEntry) texts() (fields []string, id, text string) {
	text = string(e.reply.of(span{e.id.from, e.whole.to}))
	id, text = text[:e.id.to-e.id.from], text[e.whole.from-e.id.from:]
	if e.named = e.named[:0]; cap(e.named) < len(e.fields) {
		e.named = make([]string, 0, len(e.fields))
	}
	for i := 0; i+1 < len(e.fields); i += 2 {
		name, value := e.fields[i], e.fields[i+1]
		e.named = append(e.named, text[name.from-e.whole.from:name.to-e.whole.from], text[value.from-e.whole.from:value.to-e.whole.from])
	}
	return e.named, id, text
}

// fieldsOf are the fields that the text of an entry has, in the order of their names.
func fieldsOf(text string) []string {
	in := reply{text: []byte(text)}
	e := rawEntry{reply: &in, whole: span{0, len(text)}}
	for in.at < len(text) && !in.bad {
		e.fields = append(e.fields, in.bulk())
	}
	fields, _, _ := e.texts()
	return sortFields(fields)
}

// sortFields puts fields into the order of their names; of those of one name only
// the last one stays.
func sortFields(fields []string) []string {
	const few = 64
	if len(fields) > few {
		return listed(object(fields))
	}
	n := 0
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		at := n
		for at > 0 && fields[at-2] > name {
			at -= 2
		}
		if at > 0 && fields[at-2] == name {
			fields[at-1] = value
			continue
		}
		copy(fields[at+2:n+2], fields[at:n])
		fields[at], fields[at+1] = name, value
		n += 2
	}
	return fields[:n]
}

// identifier is the id of the entry.
func (e *rawEntry) identifier() string { return string(e.reply.of(e.id)) }
