package lua

import (
	"errors"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"flunq.io/flunq/sim/resp"
)

// luaSeed is the seed of math.random in a new Redis. Here each script starts with it, so
// scripts do not influence each other.
const luaSeed = 0x1234ABCD

// gopher runs scripts on gopher-lua that could not be compiled. It keeps one state.
type gopher struct {
	redis   func([]string) resp.Reply
	state   *lua.LState
	globals *lua.LTable
	locked  map[*lua.LTable]bool
	random  luaRandom
}

// newGopher returns a gopher whose scripts send their commands to redis.
func newGopher(redis func([]string) resp.Reply) *gopher {
	e := &gopher{redis: redis, locked: map[*lua.LTable]bool{}}
	e.state = lua.NewState(lua.Options{SkipOpenLibs: true, RegistryMaxSize: 1 << 20})
	e.openLibraries()
	return e
}

// run runs a script, and returns its result as a reply.
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

// luaFailure formats an error that ended a script like Redis: first the message with its
// prefix, then the place.
func luaFailure(err error, sha string) string {
	var failure *lua.ApiError
	if !errors.As(err, &failure) || failure.Type == lua.ApiErrorPanic {
		// A command panicked, so the script is not at fault.
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
