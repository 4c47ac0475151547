package lua

import (
	"strings"

	"flunq.io/flunq/sim/resp"
)

// Errors of Redis about the arguments of redis.call.
const (
	badArgument = "ERR Lua redis lib command arguments must be strings or integers"
	noArgument  = "ERR Please specify at least one argument for this redis lib call"
	notAllowed  = "ERR This Redis command is not allowed from script"
)

// command executes a command of a script. Unknown and forbidden commands have error
// messages of their own.
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

// forbidden reports whether scripts may not send a command.
func forbidden(name string) bool {
	switch name[:min(1, len(name))] {
	case "X", "H", "Z", "T", "x", "h", "z", "t": // most commands of scripts; only HELLO is forbidden
		return strings.EqualFold(name, "HELLO")
	}
	switch strings.ToUpper(name) {
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "SCRIPT", "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH",
		"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "MONITOR", "AUTH", "QUIT", "CLIENT",
		"BLPOP", "BRPOP", "BLMOVE", "BZPOPMIN", "BZPOPMAX", "WAIT":
		return true
	default:
		return false
	}
}
