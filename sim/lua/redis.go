package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"flunq.io/flunq/sim/resp"
)

// luaRedis returns the table redis with what the engine's scripts use.
func (r *Runner) luaRedis() *lua.LTable {
	return r.state.SetFuncs(r.state.NewTable(), map[string]lua.LGFunction{
		"call":        r.call,
		"pcall":       r.pcall,
		"error_reply": r.errorReply,
		"sha1hex":     r.sha1hex,
	})
}

// call implements redis.call: an error reply ends the script.
func (r *Runner) call(l *lua.LState) int {
	reply, failed := r.perform(l)
	if failed {
		r.raise(l, reply)
	}
	l.Push(reply)
	return 1
}

// pcall implements redis.pcall: an error reply is a value.
func (r *Runner) pcall(l *lua.LState) int {
	reply, _ := r.perform(l)
	l.Push(reply)
	return 1
}

// perform executes a command for a script.
func (r *Runner) perform(l *lua.LState) (lua.LValue, bool) {
	args := slices.Grow(r.args[:0], l.GetTop())[:l.GetTop()]
	r.args = args
	for i := range args {
		switch value := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(value)
		case lua.LNumber:
			args[i] = Number(float64(value), argument)
		default:
			return r.luaField("err", badArgument), true
		}
	}
	reply := command(r.Redis, args)
	return r.luaReply(&reply), reply.Kind == resp.Error
}

// raise ends the script with an error that includes its line.
func (r *Runner) raise(l *lua.LState, failure lua.LValue) {
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
func (r *Runner) fail(l *lua.LState, message string) {
	r.raise(l, r.luaField("err", message))
}

// errorReply implements redis.error_reply.
func (r *Runner) errorReply(l *lua.LState) int {
	text, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		l.Push(r.luaField("err", "ERR wrong number or type of arguments"))
		return 1
	}
	message := strings.TrimPrefix(string(text), "-")
	if !strings.Contains(message, " ") {
		message = "ERR " + message
	}
	l.Push(r.luaField("err", message))
	return 1
}

// sha1hex implements redis.sha1hex.
func (r *Runner) sha1hex(l *lua.LState) int {
	if l.GetTop() != 1 {
		r.fail(l, "ERR wrong number of arguments")
	}
	sum := sha1.Sum([]byte(lua.LVAsString(l.Get(1))))
	l.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

// Errors of Redis about the arguments of redis.call.
const (
	badArgument = "ERR Lua redis lib command arguments must be strings or integers"
	noArgument  = "ERR Please specify at least one argument for this redis lib call"
	notAllowed  = "ERR This Redis command is not allowed from script"
)

// command executes a command of a script. In scripts, unknown and forbidden commands have
// error messages of their own.
func command(redis func([]string) resp.Reply, args []string) resp.Reply {
	if len(args) == 0 {
		return resp.Fail(noArgument)
	}
	if forbidden(args[0]) {
		return resp.Fail(notAllowed)
	}
	reply := redis(args)
	if reply.Kind == resp.Error {
		switch {
		case strings.HasPrefix(reply.Text, "ERR unknown command"):
			reply.Text = "ERR Unknown Redis command called from script"
		case strings.HasPrefix(reply.Text, "ERR wrong number of arguments for"):
			reply.Text = "ERR Wrong number of args calling Redis command from script"
		}
	}
	return reply
}

// forbidden reports whether scripts are not allowed to send a command.
func forbidden(name string) bool {
	switch strings.ToUpper(name) {
	case "HELLO", "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "SCRIPT", "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH",
		"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "MONITOR", "AUTH", "QUIT", "CLIENT",
		"BLPOP", "BRPOP", "BLMOVE", "BZPOPMIN", "BZPOPMAX", "WAIT":
		return true
	default:
		return false
	}
}
