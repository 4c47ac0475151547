package sim

import (
	"math"
	"strconv"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
)

// writeLua replies with what a script returned. An array ends before its first
// nil, and a number loses its fraction, as the manual of Redis warns.
func writeLua(w *server.Writer, resp3 bool, value lua.LValue) {
	switch value := value.(type) {
	case lua.LString:
		w.WriteBulk(string(value))
	case lua.LNumber:
		w.WriteInt(int(value))
	case lua.LBool:
		if value {
			w.WriteInt(1)
			return
		}
		w.WriteNull()
	case *lua.LTable:
		writeTable(w, resp3, value)
	default:
		w.WriteNull()
	}
}

// writeTable replies with an error, a status or an array.
func writeTable(w *server.Writer, resp3 bool, table *lua.LTable) {
	if text, ok := table.RawGetString("err").(lua.LString); ok {
		w.WriteError(string(text))
		return
	}
	if text, ok := table.RawGetString("ok").(lua.LString); ok {
		w.WriteInline(string(text))
		return
	}
	size := 0
	for table.RawGetInt(size+1) != lua.LNil {
		size++
	}
	w.WriteLen(size)
	for i := range size {
		writeLua(w, resp3, table.RawGetInt(i+1))
	}
}

// luaReply turns the next reply into what a script sees of it; an error becomes
// a table with the field err, and is told apart by the boolean.
func (e *luaEngine) luaReply(r *respReader) (lua.LValue, bool) {
	line, _ := r.line()
	switch kind, rest := line[0], line[1:]; kind {
	case '+':
		return e.luaField("ok", rest), false
	case '-':
		return e.luaField("err", rest), true
	case ':':
		return lua.LNumber(respInt(rest)), false
	case '$':
		if size := respInt(rest); size >= 0 {
			return lua.LString(r.take(size)), false
		}
	case '*':
		if size := respInt(rest); size >= 0 {
			return e.luaArray(r, size), false
		}
	}
	return lua.LFalse, false
}

// luaArray reads the elements of an array.
func (e *luaEngine) luaArray(r *respReader, size int) *lua.LTable {
	table := e.state.CreateTable(size, 0)
	for range size {
		element, _ := e.luaReply(r)
		table.Append(element)
	}
	return table
}

// luaField makes a table with one field.
func (e *luaEngine) luaField(name, value string) *lua.LTable {
	table := e.state.CreateTable(0, 1)
	table.RawSetString(name, lua.LString(value))
	return table
}

// respInt reads a number that the server itself wrote.
func respInt(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// luaNumber writes a number as C's %.<digits>g does: Lua's tostring has 14
// digits, an argument of redis.call 17.
func luaNumber(n lua.LNumber, digits int) string {
	f := float64(n)
	switch {
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
