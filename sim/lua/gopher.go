package lua

import (
	"errors"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"flunq.io/flunq/sim/resp"
)

// luaSeed is where math.random begins in a new Redis, and here in each script,
// so that what one script draws is nothing to the others.
const luaSeed = 0x1234ABCD

// gopher runs scripts that programs cannot, on gopher-lua. It keeps one state.
type gopher struct {
	redis   func([]string) resp.Reply
	state   *lua.LState
	globals *lua.LTable
	locked  map[*lua.LTable]bool
	random  luaRandom
}

// newGopher is an engine whose scripts send their commands to redis.
func newGopher(redis func([]string) resp.Reply) *gopher {
	e := &gopher{redis: redis, locked: map[*lua.LTable]bool{}}
	e.state = lua.NewState(lua.Options{SkipOpenLibs: true, RegistryMaxSize: 1 << 20})
	e.openLibraries()
	return e
}

// run runs a script, and replies with what it returns.
func (e *gopher) run(proto *lua.FunctionProto, sha string, keys, argv []string) resp.Reply {
	e.globals.RawSetString("KEYS", luaStrings(e.state, keys))
	e.globals.RawSetString("ARGV", luaStrings(e.state, argv))
	e.random = newLuaRandom(luaSeed)
	e.state.SetTop(0)
	e.state.Push(e.state.NewFunctionFromProto(proto))
	if err := e.state.PCall(0, 1, nil); err != nil {
		return resp.Fail(luaFailure(err, sha))
	}
	result := e.state.Get(1)
	e.state.SetTop(0)
	return replyOf(result)
}

// luaFailure puts an error that left a script in the words of Redis: first what
// went wrong, with its prefix, then where.
func luaFailure(err error, sha string) string {
	var failure *lua.ApiError
	if !errors.As(err, &failure) || failure.Type == lua.ApiErrorPanic {
		// Not the script's mistake: a command broke off.
		panic(fmt.Errorf("script %s: %w", sha, err))
	}
	line, message := "1", "nil"
	switch object := failure.Object.(type) {
	case *lua.LTable:
		if text, ok := object.RawGetString("err").(lua.LString); ok {
			message = string(text)
		}
		if where, ok := object.RawGetString("line").(lua.LString); ok {
			line = string(where)
		}
		return fmt.Sprintf("%s script: %s, on @%s:%s.", message, sha, chunk, line)
	case lua.LString:
		message = string(object)
		if where, ok := strings.CutPrefix(message, chunk+":"); ok {
			line, _, _ = strings.Cut(where, ":")
		}
	case lua.LNumber:
		message = Number(float64(object), written)
	}
	return fmt.Sprintf("ERR %s script: %s, on @%s:%s.", message, sha, chunk, line)
}
