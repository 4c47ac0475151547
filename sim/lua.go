package sim

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// luaChunk is what Redis calls a script in its errors.
const luaChunk = "user_script"

// luaSeed is where math.random begins in a new Redis, and here in each script,
// so that what one script draws is nothing to the others.
const luaSeed = 0x1234ABCD

// luaEngine runs the scripts of the in-memory Redis. It keeps one Lua state and
// every compiled script, which is what miniredis' own EVAL spends its time on.
type luaEngine struct {
	memory  *memory
	state   *lua.LState
	globals *lua.LTable
	locked  map[*lua.LTable]bool
	scripts map[string]*lua.LFunction
	sources map[string]string
	tamper  func(source string) string // what becomes of a script; nil: nothing
	random  luaRandom

	// What scripts call replies to this peer, into this buffer.
	peer    *server.Peer
	replies bytes.Buffer
}

// newLuaEngine makes an engine whose scripts call m's commands.
func newLuaEngine(m *memory) *luaEngine {
	e := &luaEngine{memory: m, scripts: map[string]*lua.LFunction{}, sources: map[string]string{}, locked: map[*lua.LTable]bool{}}
	e.peer = server.NewPeer(bufio.NewWriter(&e.replies))
	e.state = lua.NewState(lua.Options{SkipOpenLibs: true, RegistryMaxSize: 1 << 20})
	e.openLibraries()
	return e
}

// close frees the Lua state.
func (e *luaEngine) close() { e.state.Close() }

// eval is EVAL.
func (e *luaEngine) eval(peer *server.Peer, args []string) {
	if len(args) < 3 {
		peer.WriteError("ERR wrong number of arguments for 'eval' command")
		return
	}
	sha, err := e.load(args[1])
	if err != nil {
		peer.WriteError(err.Error())
		return
	}
	e.run(peer, sha, args[2:])
}

// evalSha is EVALSHA.
func (e *luaEngine) evalSha(peer *server.Peer, args []string) {
	if len(args) < 3 {
		peer.WriteError("ERR wrong number of arguments for 'evalsha' command")
		return
	}
	sha := strings.ToLower(args[1])
	if e.scripts[sha] == nil {
		peer.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	e.run(peer, sha, args[2:])
}

// script is SCRIPT LOAD, EXISTS and FLUSH.
func (e *luaEngine) script(peer *server.Peer, args []string) {
	verb := ""
	if len(args) > 1 {
		verb = strings.ToLower(args[1])
	}
	switch {
	case verb == "load" && len(args) == 3:
		sha, err := e.load(args[2])
		if err != nil {
			peer.WriteError(err.Error())
			return
		}
		peer.WriteBulk(sha)
	case verb == "exists" && len(args) > 2:
		peer.WriteLen(len(args) - 2)
		for _, sha := range args[2:] {
			found := 0
			if e.scripts[strings.ToLower(sha)] != nil {
				found = 1
			}
			peer.WriteInt(found)
		}
	case verb == "flush" && len(args) <= 3:
		clear(e.scripts)
		peer.WriteOK()
	default:
		peer.WriteError(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%s'. Try SCRIPT HELP.", verb))
	}
}

// load compiles a script, unless it has been, and returns the name it is called by.
func (e *luaEngine) load(source string) (string, error) {
	sum := sha1.Sum([]byte(source))
	sha := hex.EncodeToString(sum[:])
	if e.scripts[sha] != nil {
		return sha, nil
	}
	e.sources[sha] = source
	if e.tamper != nil {
		source = e.tamper(source)
		tampered := sha1.Sum([]byte(source))
		return sha, e.compile(sha, hex.EncodeToString(tampered[:]), source)
	}
	return sha, e.compile(sha, sha, source)
}

// compile keeps a script under the name that it is called by.
func (e *luaEngine) compile(name, sha, source string) error {
	proto, err := compiled(sha, source)
	if err != nil {
		return fmt.Errorf("ERR Error compiling script (new function): %w", err)
	}
	e.scripts[name] = e.state.NewFunctionFromProto(proto)
	return nil
}

// protos are the scripts that this process has compiled, by their hash.
//
//nolint:gochecknoglobals // a cache of a pure function: thousands of worlds run the same few scripts
var protos sync.Map

// compiled compiles a script once for all worlds.
func compiled(sha, source string) (*lua.FunctionProto, error) {
	if known, ok := protos.Load(sha); ok {
		if proto, ok := known.(*lua.FunctionProto); ok {
			return proto, nil
		}
	}
	chunk, err := parse.Parse(strings.NewReader(source), luaChunk)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, luaChunk)
	if err != nil {
		return nil, err
	}
	protos.Store(sha, proto)
	return proto, nil
}

// run calls a script with the rest of an EVAL's arguments and replies with what
// it returns.
func (e *luaEngine) run(peer *server.Peer, sha string, args []string) {
	count, err := strconv.Atoi(args[0])
	args = args[1:]
	switch {
	case err != nil:
		peer.WriteError("ERR value is not an integer or out of range")
		return
	case count < 0:
		peer.WriteError("ERR Number of keys can't be negative")
		return
	case count > len(args):
		peer.WriteError("ERR Number of keys can't be greater than number of args")
		return
	}
	e.globals.RawSetString("KEYS", luaStrings(e.state, args[:count]))
	e.globals.RawSetString("ARGV", luaStrings(e.state, args[count:]))
	e.random = newLuaRandom(luaSeed)
	e.state.SetTop(0)
	e.state.Push(e.scripts[sha])
	if err := e.state.PCall(0, 1, nil); err != nil {
		peer.WriteError(luaFailure(err, sha))
		return
	}
	result := e.state.Get(1)
	e.state.SetTop(0)
	peer.Block(func(w *server.Writer) { writeLua(w, peer.Resp3, result) })
}

// luaStrings makes the table that KEYS or ARGV is.
func luaStrings(state *lua.LState, values []string) *lua.LTable {
	table := state.CreateTable(len(values), 0)
	for _, value := range values {
		table.Append(lua.LString(value))
	}
	return table
}

// luaFailure puts an error that left a script in the words of Redis: first what
// went wrong, with its prefix, then where.
func luaFailure(err error, sha string) string {
	var failure *lua.ApiError
	if !errors.As(err, &failure) || failure.Type == lua.ApiErrorPanic {
		// Not the script's mistake: a command of miniredis broke off, its lock held.
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
		return fmt.Sprintf("%s script: %s, on @%s:%s.", message, sha, luaChunk, line)
	case lua.LString:
		message = string(object)
		if where, ok := strings.CutPrefix(message, luaChunk+":"); ok {
			line, _, _ = strings.Cut(where, ":")
		}
	case lua.LNumber:
		message = luaNumber(object, 14)
	}
	return fmt.Sprintf("ERR %s script: %s, on @%s:%s.", message, sha, luaChunk, line)
}
