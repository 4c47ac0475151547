package lua

import (
	"math"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// value is what a variable of a program holds. The zero value is nil. It is small
// enough that the compiler keeps it in registers.
type value struct {
	is  *table  // a table, or one that stands for its kind; nil: nil
	num float64 // of a number; 1 is true
	str string
}

// What is of values that are no tables. Nothing is ever in them.
//
//nolint:gochecknoglobals // marks
var (
	aBoolean = table{kind: isBool}
	aNumber  = table{kind: isNumber}
	aText    = table{kind: isString}
)

type kind uint8

const (
	isNil kind = iota
	isBool
	isNumber
	isString
	isTable
)

// String is what type() says.
func (k kind) String() string {
	return [...]string{"nil", "boolean", "number", "string", "table"}[k]
}

func number(n float64) value { return value{is: &aNumber, num: n} }

func text(s string) value { return value{is: &aText, str: s} }

func (v value) kind() kind {
	if v.is == nil {
		return isNil
	}
	return v.is.kind
}

func boolean(is bool) value {
	if is {
		return value{is: &aBoolean, num: 1}
	}
	return value{is: &aBoolean}
}

// holds reports whether a condition of the value is met.
func (v value) holds() bool { return v.is != nil && (v.is != &aBoolean || v.num != 0) }

// number is the value as a number, texts that are one as well.
func (v value) number() (float64, bool) {
	switch v.kind() {
	case isNumber:
		return v.num, true
	case isString:
		return parseNumber(v.str)
	default:
		return 0, false
	}
}

// text is the value as it is joined to others, with so many digits.
func (v value) text(digits int) (string, bool) {
	switch v.kind() {
	case isString:
		return v.str, true
	case isNumber:
		return Number(v.num, digits), true
	default:
		return "", false
	}
}

// Numbers have 14 digits where Lua writes them, and 17 as arguments of commands.
const (
	written  = 14
	argument = 17
)

// Number writes a number as C's %.<digits>g does.
func Number(f float64, digits int) string {
	switch {
	case f == math.Trunc(f) && math.Abs(f) < 1e14 && (f != 0 || !math.Signbit(f)):
		return strconv.FormatInt(int64(f), 10)
	case f == math.Trunc(f) && math.Abs(f) < math.Pow10(min(digits, 15)) && (f != 0 || !math.Signbit(f)):
		return strconv.FormatInt(int64(f), 10)
	case math.IsNaN(f):
		return "-nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	default:
		return strconv.FormatFloat(f, 'g', digits, 64)
	}
}

// parseNumber reads a number as C's Lua does.
func parseNumber(s string) (float64, bool) {
	if n, ok := digits(s); ok {
		return n, true
	}
	s = strings.ToLower(strings.TrimSpace(s))
	plain := strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if hex, ok := strings.CutPrefix(plain, "0x"); ok {
		n, err := strconv.ParseInt(strings.TrimSuffix(s, plain)+hex, 16, 64)
		return float64(n), err == nil
	}
	if strings.ContainsAny(s, "_px") {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

// digits reads what most numbers are.
func digits(s string) (float64, bool) {
	if s == "" || len(s) > 15 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return float64(n), true
}

// table is a Lua table: what stands under 1, 2, 3 …, and all else.
type table struct {
	kind  kind // isTable, but for those that stand for other kinds
	list  []value
	pairs []pair
	more  map[value]value // all else, once it is much
}

type pair struct{ key, value value }

// fewPairs is how many are found fast enough one after the other.
const fewPairs = 24

// place is where a key's value stands in the list, from 0 on; -1 if it does not.
func (t *table) place(key value) int {
	if key.is != &aNumber {
		return -1
	}
	if i := int(key.num); float64(i) == key.num && i >= 1 && i <= len(t.list) {
		return i - 1
	}
	return -1
}

func (t *table) get(key value) value {
	if i := t.place(key); i >= 0 {
		return t.list[i]
	}
	if t.more != nil {
		return t.more[key]
	}
	if i := t.find(key); i >= 0 {
		return t.pairs[i].value
	}
	return value{}
}

// find is the place of a key among the pairs; -1 if it is not among them.
func (t *table) find(key value) int {
	if key.is == &aText {
		for i := range t.pairs {
			if k := &t.pairs[i].key; k.is == &aText && k.str == key.str {
				return i
			}
		}
		return -1
	}
	for i := range t.pairs {
		if t.pairs[i].key == key {
			return i
		}
	}
	return -1
}

func (t *table) set(key, to value) {
	if i := t.place(key); i >= 0 {
		t.list[i] = to
		t.shorten()
		return
	}
	if key.is == &aNumber && key.num == float64(len(t.list)+1) {
		if to.is != nil {
			t.list = append(t.list, to)
			t.take()
		}
		return
	}
	t.put(key, to)
}

// shorten drops the end of the list that is nil.
func (t *table) shorten() {
	for n := len(t.list); n > 0 && t.list[n-1].is == nil; n-- {
		t.list = t.list[:n-1]
	}
}

// take moves what now continues the list behind it.
func (t *table) take() {
	for len(t.pairs) > 0 || len(t.more) > 0 {
		key := number(float64(len(t.list) + 1))
		next := t.get(key)
		if next.is == nil {
			return
		}
		t.put(key, value{})
		t.list = append(t.list, next)
	}
}

// put sets what does not stand in the list.
func (t *table) put(key, to value) {
	if t.more != nil {
		if to.is == nil {
			delete(t.more, key)
			return
		}
		t.more[key] = to
		return
	}
	if i := t.find(key); i >= 0 {
		t.pairs[i].value = to
		return
	}
	if to.is == nil {
		return
	}
	t.pairs = append(t.pairs, pair{key, to})
	if len(t.pairs) > fewPairs {
		t.more = make(map[value]value, len(t.pairs))
		for _, p := range t.pairs {
			if p.value.is != nil {
				t.more[p.key] = p.value
			}
		}
		t.pairs = nil
	}
}

// reply is what a script returns as a reply: an array ends before its first nil,
// and a number loses its fraction, as the manual of Redis warns.
func (v value) reply() resp.Reply {
	switch v.kind() {
	case isString:
		return resp.Text(v.str)
	case isNumber:
		return resp.Int(int(v.num))
	case isBool:
		if v.num != 0 {
			return resp.Int(1)
		}
		return resp.Reply{}
	case isTable:
		return v.is.reply()
	default:
		return resp.Reply{}
	}
}

func (t *table) reply() resp.Reply {
	if failure := t.get(text("err")); failure.is == &aText {
		return resp.Fail(failure.str)
	}
	if status := t.get(text("ok")); status.is == &aText {
		return resp.Reply{Kind: resp.Status, Text: status.str}
	}
	list := make([]resp.Reply, 0, len(t.list))
	for _, v := range t.list {
		if v.is == nil {
			break
		}
		list = append(list, v.reply())
	}
	return resp.List(list...)
}
