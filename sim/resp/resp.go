// Package resp is what a Redis and its clients say to each other: as values, and
// as the bytes of the protocol, in its second version.
package resp

import (
	"strconv"
	"strings"
)

// Reply is the answer to a command. What it refers to is not changed any more.
type Reply struct {
	Kind  Kind
	Int   int64    // of an Integer
	Text  string   // of a Status, an Error or a Bulk, and the id of an Entry
	List  []Reply  // of an Array
	Texts []string // of Bulks, and the fields of an Entry; nil: it has none any more
}

// Kind is what a reply is.
type Kind uint8

// The kinds of replies. Two of them are arrays in another shape: Bulks, all of
// whose elements are bulk strings, and Entry, an entry of a stream.
const (
	Nil Kind = iota
	NilArray
	Status
	Error
	Integer
	Bulk
	Array
	Bulks
	Entry
)

// OK is what most commands reply that change something.
func OK() Reply { return Reply{Kind: Status, Text: "OK"} }

// Int is a number as a reply.
func Int(n int) Reply { return Reply{Kind: Integer, Int: int64(n)} }

// Bool is 1 or 0.
func Bool(is bool) Reply {
	if is {
		return Int(1)
	}
	return Int(0)
}

// Text is a text as a reply.
func Text(text string) Reply { return Reply{Kind: Bulk, Text: text} }

// List is an array as a reply.
func List(list ...Reply) Reply { return Reply{Kind: Array, List: list} }

// Fail is an error as a reply, with its prefix.
func Fail(message string) Reply { return Reply{Kind: Error, Text: message} }

// Strings is an array of texts as a reply.
func Strings(texts []string) Reply { return Reply{Kind: Bulks, Texts: texts} }

// Append adds a reply to b, as it is sent.
func (r *Reply) Append(b []byte) []byte {
	switch r.Kind {
	case NilArray:
		return append(b, "*-1\r\n"...)
	case Status:
		return line(append(b, '+'), r.Text)
	case Error:
		return line(append(b, '-'), strings.Join(strings.FieldsFunc(r.Text, lineEnd), " "))
	case Integer:
		return number(append(b, ':'), r.Int)
	case Bulk:
		return bulk(b, r.Text)
	case Array:
		b = number(append(b, '*'), int64(len(r.List)))
		for i := range r.List {
			b = r.List[i].Append(b)
		}
		return b
	case Bulks:
		return bulks(b, r.Texts)
	case Entry:
		b = bulk(append(b, "*2\r\n"...), r.Text)
		if r.Texts == nil {
			return append(b, "*-1\r\n"...)
		}
		return bulks(b, r.Texts)
	default:
		return append(b, "$-1\r\n"...)
	}
}

// lineEnd is what an error cannot have in it.
func lineEnd(r rune) bool { return r == '\r' || r == '\n' }

func bulks(b []byte, texts []string) []byte {
	b = number(append(b, '*'), int64(len(texts)))
	for _, text := range texts {
		b = bulk(b, text)
	}
	return b
}

func bulk(b []byte, text string) []byte {
	return line(number(append(b, '$'), int64(len(text))), text)
}

func number(b []byte, n int64) []byte { return append(strconv.AppendInt(b, n, 10), '\r', '\n') }

func line(b []byte, text string) []byte { return append(append(b, text...), '\r', '\n') }

// Value is a reply as Go programs get it that ask for no type: nil, int64,
// string, or []any of these; errors are told apart by the boolean.
func (r *Reply) Value() (value any, failed bool) {
	switch r.Kind {
	case Error:
		return r.Text, true
	case Status, Bulk:
		return r.Text, false
	case Integer:
		return r.Int, false
	case Array:
		out := make([]any, len(r.List))
		for i := range r.List {
			out[i], _ = r.List[i].Value()
		}
		return out, false
	case Bulks:
		return anys(r.Texts), false
	case Entry:
		if r.Texts == nil {
			return []any{r.Text, nil}, false
		}
		return []any{r.Text, anys(r.Texts)}, false
	default:
		return nil, false
	}
}

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}
