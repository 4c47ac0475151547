package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"flunq.io/flunq/sim/resp"
)

// luaRedis returns the table redis.
func (e *gopher) luaRedis() *lua.LTable {
	table := e.state.SetFuncs(e.state.NewTable(), map[string]lua.LGFunction{
		"call":               e.call,
		"pcall":              e.pcall,
		"error_reply":        e.errorReply,
		"status_reply":       e.statusReply,
		"sha1hex":            e.sha1hex,
		"log":                e.log,
		"setresp":            e.setResp,
		"set_repl":           luaNothing,
		"debug":              luaNothing,
		"breakpoint":         func(l *lua.LState) int { l.Push(lua.LFalse); return 1 },
		"replicate_commands": func(l *lua.LState) int { l.Push(lua.LTrue); return 1 },
	})
	for name, value := range map[string]lua.LNumber{
		"LOG_DEBUG": 0, "LOG_VERBOSE": 1, "LOG_NOTICE": 2, "LOG_WARNING": 3,
		"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3,
	} {
		table.RawSetString(name, value)
	}
	return table
}

// call implements redis.call: an error reply ends the script.
func (e *gopher) call(l *lua.LState) int {
	reply, failed := e.perform(l)
	if failed {
		e.raise(l, reply)
	}
	l.Push(reply)
	return 1
}

// pcall implements redis.pcall: an error reply is a value.
func (e *gopher) pcall(l *lua.LState) int {
	reply, _ := e.perform(l)
	l.Push(reply)
	return 1
}

// perform executes a command for a script.
func (e *gopher) perform(l *lua.LState) (lua.LValue, bool) {
	args := make([]string, l.GetTop())
	for i := range args {
		switch value := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(value)
		case lua.LNumber:
			args[i] = Number(float64(value), argument)
		default:
			return e.luaField("err", badArgument), true
		}
	}
	reply := command(e.redis, args)
	return e.luaReply(&reply), reply.Kind == resp.Error
}

// raise ends the script with an error that includes its line.
func (e *gopher) raise(l *lua.LState, failure lua.LValue) {
	if table, ok := failure.(*lua.LTable); ok {
		table.RawSetString("line", lua.LString(luaLine(l)))
	}
	l.Error(failure, 0)
}

// luaLine returns the current line of the script.
func luaLine(l *lua.LState) string {
	for level := range 8 {
		where, ok := strings.CutPrefix(l.Where(level), chunk+":")
		if ok {
			return strings.TrimSuffix(where, ":")
		}
	}
	return "1"
}

// fail ends the script with a message.
func (e *gopher) fail(l *lua.LState, message string) {
	e.raise(l, e.luaField("err", message))
}

// errorReply implements redis.error_reply.
func (e *gopher) errorReply(l *lua.LState) int {
	text, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		l.Push(e.luaField("err", "ERR wrong number or type of arguments"))
		return 1
	}
	message := strings.TrimPrefix(string(text), "-")
	if !strings.Contains(message, " ") {
		message = "ERR " + message
	}
	l.Push(e.luaField("err", message))
	return 1
}

// statusReply implements redis.status_reply.
func (e *gopher) statusReply(l *lua.LState) int {
	text, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		l.Push(e.luaField("err", "ERR wrong number or type of arguments"))
		return 1
	}
	l.Push(e.luaField("ok", string(text)))
	return 1
}

// sha1hex implements redis.sha1hex.
func (e *gopher) sha1hex(l *lua.LState) int {
	if l.GetTop() != 1 {
		e.fail(l, "ERR wrong number of arguments")
	}
	sum := sha1.Sum([]byte(lua.LVAsString(l.Get(1))))
	l.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

// log implements redis.log, which writes nothing.
func (e *gopher) log(l *lua.LState) int {
	if l.GetTop() < 2 {
		e.fail(l, "ERR redis.log() requires two arguments or more.")
	}
	return 0
}

// setResp implements redis.setresp; only RESP 2 is supported.
func (e *gopher) setResp(l *lua.LState) int {
	if l.Get(1) != lua.LNumber(2) {
		e.fail(l, "ERR the simulator's scripts speak RESP 2 only")
	}
	return 0
}

// luaNothing is a function that does nothing.
func luaNothing(*lua.LState) int { return 0 }
