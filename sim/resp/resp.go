// Package resp represents the replies of Redis, and implements version 2 of its protocol RESP.
package resp

import (
	"strconv"
	"strings"
)

// Reply is the reply to a command. Its slices must not be changed.
type Reply struct {
	Kind  Kind
	Int   int64    // of an Integer
	Text  string   // of a Status, an Error or a Bulk, and the id of an Entry
	List  []Reply  // of an Array
	Texts []string // of Bulks, and the fields of an Entry; nil for an entry that was deleted
}

// Kind is the type of a reply.
type Kind uint8

// The kinds of replies. Two of them are compact forms of arrays: Bulks has only bulk
// strings, and Entry is an entry of a stream.
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

// OK returns the status OK.
func OK() Reply { return Reply{Kind: Status, Text: "OK"} }

// Int returns an integer reply.
func Int(n int) Reply { return Reply{Kind: Integer, Int: int64(n)} }

// Bool returns 1 or 0.
func Bool(is bool) Reply {
	if is {
		return Int(1)
	}
	return Int(0)
}

// Text returns a bulk string.
func Text(text string) Reply { return Reply{Kind: Bulk, Text: text} }

// List returns an array.
func List(list ...Reply) Reply { return Reply{Kind: Array, List: list} }

// Fail returns an error; message includes its prefix, such as ERR.
func Fail(message string) Reply { return Reply{Kind: Error, Text: message} }

// Strings returns an array of bulk strings.
func Strings(texts []string) Reply { return Reply{Kind: Bulks, Texts: texts} }

// Append appends the encoded reply to b.
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

// lineEnd reports whether r may not be part of an error.
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

// Scalar returns an integer, a status or a bulk string as a string; "" for other replies.
func (r *Reply) Scalar() string {
	if r.Kind == Integer {
		return strconv.FormatInt(r.Int, 10)
	}
	return r.Text
}

// Elements returns the elements of an array of bulk strings; false for any other reply.
func (r *Reply) Elements() (texts []string, ok bool) {
	if r.Kind == Bulks {
		return r.Texts, true
	}
	texts = make([]string, len(r.List))
	for i := range r.List {
		if texts[i] = r.List[i].Text; r.List[i].Kind == Integer {
			return nil, false
		}
	}
	return texts, r.Kind == Array
}

// Value returns the reply as go-redis represents untyped replies: nil, int64, string, or
// []any of these. failed reports whether it is an error.
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
