// Package lua runs the scripts of a Redis. Most of them become functions of Go,
// which take a fraction of the time that an interpreter does; those that want more
// of Lua than is known here are run by gopher-lua.
package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"flunq.io/flunq/sim/resp"
)

// chunk is what Redis calls a script in its errors.
const chunk = "user_script"

// Script is a script that was compiled. It does not change: any number of Redis
// run it at once.
type Script struct {
	SHA    string // that it is called by
	Source string
	Wants  string // what it wants of Lua that is left to gopher-lua; "": nothing

	program *program // nil: it is left to gopher-lua
	proto   *lua.FunctionProto
}

// Interpreted is the same script as gopher-lua runs it.
func (s *Script) Interpreted() *Script {
	other := *s
	other.program = nil
	return &other
}

// scripts are those that this process has compiled, by their texts.
//
//nolint:gochecknoglobals // a cache of a pure function: thousands of worlds run the same few scripts
var scripts sync.Map

// Compile compiles a script, unless the process has done so before.
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
	sum := sha1.Sum([]byte(source))
	s := &Script{SHA: hex.EncodeToString(sum[:]), Source: source}
	s.program, s.Wants = compileProgram(body) // first: gopher-lua changes what was parsed
	if s.proto, err = lua.Compile(body, chunk); err != nil {
		return nil, fmt.Errorf("compile the script: %w", err)
	}
	scripts.Store(source, s)
	return s, nil
}

// Runner runs the scripts of a Redis, one at a time.
type Runner struct {
	// Redis carries the commands of the scripts out. It keeps nothing of the slice
	// that it gets.
	Redis func(args []string) resp.Reply
	// Recalls says that what scripts are given is mostly what they were given before, by
	// others too: how they went then is known.
	Recalls bool

	machine machine
	courses courses
	taken   []*step // see walk
	gopher  *gopher // nil until a script needs it
}

// Run runs a script, which its errors call sha.
func (r *Runner) Run(s *Script, sha string, keys, argv []string) resp.Reply {
	if s.program != nil {
		if p := r.place(s, keys, argv); p != nil {
			return r.again(p, s, sha, keys, argv)
		}
		r.machine.redis = r.Redis
		return r.machine.run(s.program, sha, keys, argv)
	}
	if r.gopher == nil {
		r.gopher = newGopher(r.Redis)
	}
	return r.gopher.run(s.proto, sha, keys, argv)
}

// Close ends its work for one Redis: it can go on with another.
func (r *Runner) Close() {
	r.Redis, r.machine.redis, r.Recalls = nil, nil, false
	if r.gopher != nil {
		r.gopher.state.Close()
		r.gopher = nil
	}
}
