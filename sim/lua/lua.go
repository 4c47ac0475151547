// Package lua runs Redis scripts on gopher-lua, with the globals, libraries and error messages of
// redis-server.
package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"flunq.io/flunq/sim/resp"
)

// chunk is the name of a script in Redis errors.
const chunk = "user_script"

// Script is a compiled script. It never changes, so it is safe for concurrent use.
type Script struct {
	SHA    string // its SHA1, by which EVALSHA calls it
	Source string

	proto *lua.FunctionProto
}

// scripts caches the scripts that this process has compiled, by source.
//
//nolint:gochecknoglobals // a cache of a pure function: thousands of simulations run the same few scripts
var scripts sync.Map

// Compile compiles a script, or returns it from the cache.
func Compile(source string) (*Script, error) {
	if known, ok := scripts.Load(source); ok {
		if s, ok := known.(*Script); ok {
			return s, nil
		}
	}
	body, err := parse.Parse(strings.NewReader(source), chunk)
	if err != nil {
		return nil, fmt.Errorf("compile the script: %w", err)
	}
	formatConcat(reflect.ValueOf(body))
	sum := sha1.Sum([]byte(source))
	s := &Script{SHA: hex.EncodeToString(sum[:]), Source: source}
	if s.proto, err = lua.Compile(body, chunk); err != nil {
		return nil, fmt.Errorf("compile the script: %w", err)
	}
	scripts.Store(source, s)
	return s, nil
}

// Runner runs scripts for one Redis, one at a time. It keeps one Lua state, whose globals are
// read-only, so a script leaves nothing behind.
type Runner struct {
	// Redis executes the commands of the scripts. It must not keep args.
	Redis func(args []string) resp.Reply

	state   *lua.LState // nil until the first script
	globals *lua.LTable
	locked  map[*lua.LTable]bool // read-only tables
	args    []string             // of the current command
}

// Run runs a script and returns its result as a reply.
func (r *Runner) Run(s *Script, keys, argv []string) resp.Reply {
	if r.state == nil {
		r.state = lua.NewState(lua.Options{SkipOpenLibs: true, RegistryMaxSize: 1 << 20})
		r.locked = map[*lua.LTable]bool{}
		r.openLibraries()
	}
	r.globals.RawSetString("KEYS", luaStrings(r.state, keys))
	r.globals.RawSetString("ARGV", luaStrings(r.state, argv))
	r.state.SetTop(0)
	r.state.Push(r.state.NewFunctionFromProto(s.proto))
	if err := r.state.PCall(0, 1, nil); err != nil {
		return resp.Fail(luaFailure(err, s.SHA))
	}
	result := r.state.Get(1)
	r.state.SetTop(0)
	return replyOf(result)
}

// luaFailure formats an error that ended a script as Redis does: the message with its prefix,
// then the place.
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
