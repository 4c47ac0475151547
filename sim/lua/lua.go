// Package lua runs Redis scripts. It compiles most of them to Go closures, which take a
// fraction of the time of an interpreter; gopher-lua runs those that use features it does
// not support.
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

// chunk is the name of a script in Redis errors.
const chunk = "user_script"

// Script is a compiled script. It never changes, so it is safe for concurrent use.
type Script struct {
	SHA    string // the name by which it is called
	Source string
	Wants  string // the Lua feature that requires gopher-lua; "": none

	program *program // nil: gopher-lua runs it
	proto   *lua.FunctionProto
}

// Interpreted returns the same script for gopher-lua.
func (s *Script) Interpreted() *Script {
	other := *s
	other.program = nil
	return &other
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
	sum := sha1.Sum([]byte(source))
	s := &Script{SHA: hex.EncodeToString(sum[:]), Source: source}
	s.program, s.Wants = compileProgram(body) // first: gopher-lua modifies the parsed script
	if s.proto, err = lua.Compile(body, chunk); err != nil {
		return nil, fmt.Errorf("compile the script: %w", err)
	}
	scripts.Store(source, s)
	return s, nil
}

// Runner runs scripts for one Redis, one at a time.
type Runner struct {
	// Redis executes the commands of the scripts. It must not keep args.
	Redis func(args []string) resp.Reply
	// Recalls enables the cache of courses. It pays off if most scripts run repeatedly
	// with the same arguments.
	Recalls bool

	machine machine
	courses courses
	taken   []*step // see walk
	gopher  *gopher // nil until a script needs it
}

// Run runs a script. Its errors name it by sha.
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

// Close resets the Runner. It can be used with another Redis afterwards.
func (r *Runner) Close() {
	r.Redis, r.machine.redis, r.Recalls = nil, nil, false
	if r.gopher != nil {
		r.gopher.state.Close()
		r.gopher = nil
	}
}
