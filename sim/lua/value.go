package lua

import (
	"math"
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// value is a Lua value. The zero value is nil. It is small enough for the compiler to
// keep it in registers.
type value struct {
	is  *table  // a table, or a marker for another kind; nil: nil
	num float64 // of a number; 1 is true
	str string
}

// The markers of values that are not tables. They are always empty.
//
//nolint:gochecknoglobals // constant markers
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

// String implements type().
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

// holds reports whether the value is true as a condition.
func (v value) holds() bool { return v.is != nil && (v.is != &aBoolean || v.num != 0) }

// number converts the value to a number, if possible.
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

// text converts the value to a string, with so many digits for numbers.
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

// The digits of numbers in strings, and in arguments of commands.
const (
	written  = 14
	argument = 17
)

// Number formats a number like C's %.<digits>g.
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

// parseNumber parses a number like C Lua.
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

// digits parses short integers, which most numbers are.
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

// table is a Lua table: its list part 1, 2, 3 …, and everything else.
type table struct {
	kind  kind // isTable, except for markers
	list  []value
	pairs []pair
	more  map[value]value // everything else, once there is much of it
}

type pair struct{ key, value value }

// fewPairs is the number of pairs up to which a linear search is fast enough.
const fewPairs = 24

// place returns the index of a key in the list, from 0; -1 if it is not part of it.
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

// find returns the index of a key among the pairs; -1 if it is not among them.
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

// shorten drops trailing nils of the list.
func (t *table) shorten() {
	for n := len(t.list); n > 0 && t.list[n-1].is == nil; n-- {
		t.list = t.list[:n-1]
	}
}

// take moves pairs that now continue the list into it.
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

// put sets a key that is not part of the list.
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

// reply converts the result of a script to a reply. An array ends before its first nil,
// and a number loses its fraction, as the Redis manual warns.
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
