package lua

import (
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
func (e *gopher) luaReply(r *resp.Reply) lua.LValue {
	switch r.Kind {
	case resp.Status:
		return e.luaField("ok", r.Text)
	case resp.Error:
		return e.luaField("err", r.Text)
	case resp.Integer:
		return lua.LNumber(r.Int)
	case resp.Bulk:
		return lua.LString(r.Text)
	case resp.Array:
		table := e.state.CreateTable(len(r.List), 0)
		for i := range r.List {
			table.Append(e.luaReply(&r.List[i]))
		}
		return table
	case resp.Bulks:
		return luaStrings(e.state, r.Texts)
	case resp.Entry:
		table := e.state.CreateTable(2, 0)
		table.Append(lua.LString(r.Text))
		if r.Texts == nil {
			table.Append(lua.LFalse)
		} else {
			table.Append(luaStrings(e.state, r.Texts))
		}
		return table
	default:
		return lua.LFalse
	}
}

// luaField returns a table with one field.
func (e *gopher) luaField(name, value string) *lua.LTable {
	table := e.state.CreateTable(0, 1)
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
