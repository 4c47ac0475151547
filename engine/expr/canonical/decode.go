// Package canonical defines the data that expressions work on, in one form: each value has one Go
// representation and one JSON text. It decodes, encodes, compares and measures such data.
package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

const (
	// MaxDepth is the nesting depth of lists and objects.
	MaxDepth = 1000
	// MaxDigits is the number of digits of one number.
	MaxDigits = 1000

	maxDocument = 64 << 20 // bytes of JSON
)

// ErrDepth is the error of a value whose nesting exceeds MaxDepth.
var ErrDepth = fmt.Errorf("more than %d levels deep", MaxDepth)

// MaxMemory is the approximate memory in bytes that a decoded or computed JSON value may
// take (limit json-memory). A string takes little more than its length, an object with one
// member about 400 bytes.
const MaxMemory = 64 << 20

// maxKept is the same limit for data composed of several values, such as a snapshot.
const maxKept = 16 * MaxMemory

// Approximate memory of decoded values.
const (
	slotMemory   = 24 // per member of a list or an object
	textMemory   = 16 // in addition to its length
	listMemory   = 32
	objectMemory = 48  // when empty …
	groupMemory  = 288 // … and for each 8 members, at least one
	groupMembers = 8
)

var errLarge = fmt.Errorf("it would take more than %d MiB in memory (limit json-memory)", MaxMemory>>20)

// Decode decodes one JSON document into the values that expressions work on, in canonical form
// (see Form). Of equal keys the last wins, and invalid UTF-8 is replaced. Data after the document,
// or a document that is too deep or too large, is an error.
func Decode(data []byte) (any, error) { return decode(data, maxKept) }

// DecodeOrText returns the value of JSON, nil for no data, and data that is not JSON as a string.
func DecodeOrText(data []byte) any {
	if len(data) == 0 {
		return nil
	}
	v, err := Decode(data)
	if err != nil {
		return string(data)
	}
	return v
}

// DecodeForeign is like Decode for external data, which may take at most MaxMemory.
func DecodeForeign(data []byte) (any, error) { return decode(data, MaxMemory) }

func decode(data []byte, memory int) (any, error) {
	if len(data) > maxDocument {
		return nil, fmt.Errorf("JSON of %d bytes, want at most %d", len(data), maxDocument)
	}
	d := decoder{data: data, left: memory}
	v, err := d.value(0)
	if err == nil {
		if d.space(); d.at < len(data) {
			err = errors.New("more after the end of the document")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("JSON at byte %d: %w", d.at, err)
	}
	return v, nil
}

type decoder struct {
	data []byte
	at   int
	left int // memory left for the rest
}

// peek skips white space and returns the next byte, 0 at the end.
func (d *decoder) peek() byte {
	d.space()
	if d.at < len(d.data) {
		return d.data[d.at]
	}
	return 0
}

func (d *decoder) space() {
	for d.at < len(d.data) {
		switch d.data[d.at] {
		case ' ', '\t', '\r', '\n':
			d.at++
		default:
			return
		}
	}
}

func (d *decoder) value(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, ErrDepth
	}
	if d.left -= slotMemory; d.left < 0 {
		return nil, errLarge
	}
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.list(depth)
	case c == '"':
		return d.text()
	case c == 't':
		return true, d.word("true")
	case c == 'f':
		return false, d.word("false")
	case c == 'n':
		return nil, d.word("null")
	case c == '-', '0' <= c && c <= '9':
		return d.number()
	default:
		return nil, d.unexpected("a value")
	}
}

func (d *decoder) unexpected(want string) error {
	if d.at >= len(d.data) {
		return fmt.Errorf("ends where %s should be", want)
	}
	r, _ := utf8.DecodeRune(d.data[d.at:])
	return fmt.Errorf("%q where %s should be", r, want)
}

func (d *decoder) word(word string) error {
	if !bytes.HasPrefix(d.data[d.at:], []byte(word)) {
		return d.unexpected("a value")
	}
	d.at += len(word)
	return nil
}

func (d *decoder) object(depth int) (any, error) {
	d.at++
	d.left -= objectMemory
	fields := map[string]any{}
	if d.peek() == '}' {
		d.at++
		return fields, nil
	}
	for {
		if d.peek() != '"' {
			return nil, d.unexpected("a key")
		}
		key, err := d.text()
		if err != nil {
			return nil, err
		}
		if len(fields)%groupMembers == 0 {
			d.left -= groupMemory
		}
		if d.peek() != ':' {
			return nil, d.unexpected("a colon")
		}
		d.at++
		if fields[key], err = d.value(depth + 1); err != nil {
			return nil, err
		}
		if done, err := d.next('}'); done || err != nil {
			return fields, err
		}
	}
}

func (d *decoder) list(depth int) (any, error) {
	d.at++
	d.left -= listMemory
	items := []any{}
	if d.peek() == ']' {
		d.at++
		return items, nil
	}
	for {
		item, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if done, err := d.next(']'); done || err != nil {
			return items, err
		}
	}
}

// next reads the comma before another member, or the end.
func (d *decoder) next(end byte) (done bool, err error) {
	switch d.peek() {
	case end:
		d.at++
		return true, nil
	case ',':
		d.at++
		return false, nil
	default:
		return false, d.unexpected("a comma or " + strconv.QuoteRune(rune(end)))
	}
}

func (d *decoder) number() (any, error) {
	start := d.at
	if d.data[d.at] == '-' {
		d.at++
	}
	for d.at < len(d.data) && numeric(d.data[d.at]) {
		d.at++
	}
	text := d.data[start:d.at]
	if len(text) > MaxDigits {
		return nil, fmt.Errorf("number of %d digits, want at most %d", len(text), MaxDigits)
	}
	if !json.Valid(text) {
		d.at = start
		return nil, fmt.Errorf("%.40q is not a number", text)
	}
	return number(string(text)), nil
}

func numeric(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

func (d *decoder) text() (string, error) {
	from := d.at
	defer func() { d.left -= textMemory + d.at - from }()
	d.at++
	for i := d.at; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == '"':
			text := string(d.data[d.at:i])
			d.at = i + 1
			return text, nil
		case c < ' ' || c == '\\' || c >= utf8.RuneSelf:
			return d.longText()
		}
	}
	d.at = len(d.data)
	return "", d.unexpected("the end of a string")
}

// longText parses a string with escapes or non-ASCII characters.
func (d *decoder) longText() (string, error) {
	end := d.at
	for end < len(d.data) && d.data[end] != '"' {
		if d.data[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(d.data) {
		d.at = len(d.data)
		return "", d.unexpected("the end of a string")
	}
	var text string
	if err := json.Unmarshal(d.data[d.at-1:end+1], &text); err != nil {
		return "", fmt.Errorf("string: %w", err)
	}
	d.at = end + 1
	return text, nil
}
