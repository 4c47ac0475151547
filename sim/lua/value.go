package lua

import (
	"math"
	"strconv"

	lua "github.com/yuin/gopher-lua"

	"flunq.io/flunq/sim/resp"
)

// replyOf converts the result of a script to a reply. An array ends before its first nil,
// and a number loses its fraction, as the Redis manual warns.
func replyOf(value lua.LValue) resp.Reply {
	switch value := value.(type) {
	case lua.LString:
		return resp.Text(string(value))
	case lua.LNumber:
		return resp.Int(int(value))
	case lua.LBool:
		if value {
			return resp.Int(1)
		}
		return resp.Reply{}
	case *lua.LTable:
		return replyOfTable(value)
	default:
		return resp.Reply{}
	}
}

// replyOfTable returns an error, a status or an array.
func replyOfTable(table *lua.LTable) resp.Reply {
	if text, ok := table.RawGetString("err").(lua.LString); ok {
		return resp.Fail(string(text))
	}
	if text, ok := table.RawGetString("ok").(lua.LString); ok {
		return resp.Reply{Kind: resp.Status, Text: string(text)}
	}
	var list []resp.Reply
	for i := 1; table.RawGetInt(i) != lua.LNil; i++ {
		list = append(list, replyOf(table.RawGetInt(i)))
	}
	return resp.List(list...)
}

// luaReply converts a reply to a Lua value; an error becomes a table with the field err.
func (r *Runner) luaReply(reply *resp.Reply) lua.LValue {
	switch reply.Kind {
	case resp.Status:
		return r.luaField("ok", reply.Text)
	case resp.Error:
		return r.luaField("err", reply.Text)
	case resp.Integer:
		return lua.LNumber(reply.Int)
	case resp.Bulk:
		return lua.LString(reply.Text)
	case resp.Array:
		table := r.state.CreateTable(len(reply.List), 0)
		for i := range reply.List {
			table.Append(r.luaReply(&reply.List[i]))
		}
		return table
	case resp.Bulks:
		return luaStrings(r.state, reply.Texts)
	case resp.Entry:
		table := r.state.CreateTable(2, 0)
		table.Append(lua.LString(reply.Text))
		if reply.Texts == nil {
			table.Append(lua.LFalse)
		} else {
			table.Append(luaStrings(r.state, reply.Texts))
		}
		return table
	default:
		return lua.LFalse
	}
}

// luaField returns a table with one field.
func (r *Runner) luaField(name, value string) *lua.LTable {
	table := r.state.CreateTable(0, 1)
	table.RawSetString(name, lua.LString(value))
	return table
}

// luaStrings returns a list of strings.
func luaStrings(state *lua.LState, values []string) *lua.LTable {
	table := state.CreateTable(len(values), 0)
	for _, value := range values {
		table.Append(lua.LString(value))
	}
	return table
}

// The digits of numbers in strings, and in arguments of commands.
const (
	written  = 14
	argument = 17
)

// Number formats a number like C's %.<digits>g.
func Number(f float64, digits int) string {
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
