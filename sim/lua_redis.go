package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// luaRedis is the table redis.
func (e *luaEngine) luaRedis() *lua.LTable {
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

// call is redis.call: an error reply ends the script.
func (e *luaEngine) call(l *lua.LState) int {
	reply, failed := e.perform(l)
	if failed {
		e.raise(l, reply)
	}
	l.Push(reply)
	return 1
}

// pcall is redis.pcall: an error reply is a value.
func (e *luaEngine) pcall(l *lua.LState) int {
	reply, _ := e.perform(l)
	l.Push(reply)
	return 1
}

// perform carries out a command for a script.
func (e *luaEngine) perform(l *lua.LState) (lua.LValue, bool) {
	args := make([]string, l.GetTop())
	for i := range args {
		switch value := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(value)
		case lua.LNumber:
			args[i] = luaNumber(value, 17)
		default:
			return e.luaField("err", "ERR Lua redis lib command arguments must be strings or integers"), true
		}
	}
	if len(args) == 0 {
		return e.luaField("err", "ERR Please specify at least one argument for this redis lib call"), true
	}
	name := strings.ToUpper(args[0])
	switch name {
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "SCRIPT", "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH",
		"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "MONITOR", "HELLO", "AUTH", "QUIT", "CLIENT",
		"BLPOP", "BRPOP", "BLMOVE", "BZPOPMIN", "BZPOPMAX", "WAIT":
		return e.luaField("err", "ERR This Redis command is not allowed from script"), true
	}
	e.memory.carryOut(e.peer, name, args)
	e.peer.Flush()
	reader := respReader{text: e.replies.String()}
	e.replies.Reset()
	reply, failed := e.luaReply(&reader)
	if reader.pos != len(reader.text) {
		panic(fmt.Sprintf("miniredis: more than one reply to %q: %q", args, reader.text))
	}
	if failed {
		reply = e.rephrase(reader.text)
	}
	return reply, failed
}

// rephrase makes an error of a command into what a script gets to see.
func (e *luaEngine) rephrase(reply string) *lua.LTable {
	message := strings.TrimSuffix(reply[1:], "\r\n")
	switch {
	case strings.HasPrefix(message, "ERR unknown command"):
		message = "ERR Unknown Redis command called from script"
	case strings.HasPrefix(message, "ERR wrong number of arguments for"):
		message = "ERR Wrong number of args calling Redis command from script"
	}
	return e.luaField("err", message)
}

// raise ends the script with an error that knows the line it comes from.
func (e *luaEngine) raise(l *lua.LState, failure lua.LValue) {
	if table, ok := failure.(*lua.LTable); ok {
		table.RawSetString("line", lua.LString(luaLine(l)))
	}
	l.Error(failure, 0)
}

// luaLine is the line of the script that is being carried out.
func luaLine(l *lua.LState) string {
	for level := range 8 {
		where, ok := strings.CutPrefix(l.Where(level), luaChunk+":")
		if ok {
			return strings.TrimSuffix(where, ":")
		}
	}
	return "1"
}

// fail ends the script with a message.
func (e *luaEngine) fail(l *lua.LState, message string) {
	e.raise(l, e.luaField("err", message))
}

// errorReply is redis.error_reply.
func (e *luaEngine) errorReply(l *lua.LState) int {
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

// statusReply is redis.status_reply.
func (e *luaEngine) statusReply(l *lua.LState) int {
	text, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		l.Push(e.luaField("err", "ERR wrong number or type of arguments"))
		return 1
	}
	l.Push(e.luaField("ok", string(text)))
	return 1
}

// sha1hex is redis.sha1hex.
func (e *luaEngine) sha1hex(l *lua.LState) int {
	if l.GetTop() != 1 {
		e.fail(l, "ERR wrong number of arguments")
	}
	sum := sha1.Sum([]byte(lua.LVAsString(l.Get(1))))
	l.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

// log is redis.log, which has no log to write to.
func (e *luaEngine) log(l *lua.LState) int {
	if l.GetTop() < 2 {
		e.fail(l, "ERR redis.log() requires two arguments or more.")
	}
	return 0
}

// setResp is redis.setresp; only the protocol scripts begin with is known.
func (e *luaEngine) setResp(l *lua.LState) int {
	if l.Get(1) != lua.LNumber(2) {
		e.fail(l, "ERR the simulator's scripts speak RESP 2 only")
	}
	return 0
}

// luaNothing is a function that does nothing.
func luaNothing(*lua.LState) int { return 0 }
