// Package scripts holds the Lua scripts that change the store or read it atomically. The header
// of each script names its keys, its arguments and its reply, in the order in which its caller passes
// them. All keys are of one slot, and KEYS tells a cluster which one; a few scripts use keys that begin
// with a prefix, which is in KEYS or in ARGV. The simulator runs the scripts on package sim/memory,
// which must know each command that they call.
package scripts

import (
	"embed"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var files embed.FS

// made lists the sources of the scripts that packages have declared, and reading the scripts among
// them that write nothing.
//
//nolint:gochecknoglobals // filled while packages are initialised
var (
	made    []func() string
	reading []func() *redis.Script
)

// Reading is like New for a script that writes nothing: its calls do not wait for replicas.
func Reading(names ...string) func() *redis.Script {
	script := New(names...)
	reading = append(reading, script)
	return script
}

// Writes reports whether a script, identified by its hash, may write.
func Writes(hash string) bool {
	return !slices.ContainsFunc(reading, func(script func() *redis.Script) bool { return script().Hash() == hash })
}

// New concatenates files into one script: first the files with functions that the last one calls.
// It does so at the first call of the result, which commands that need no Redis never make.
// Packages call New while they are initialised so that Sources returns every script.
func New(names ...string) func() *redis.Script { return From(files, names...) }

// From is like New with the files of another package.
func From(files embed.FS, names ...string) func() *redis.Script {
	source := sync.OnceValue(func() string {
		var all strings.Builder
		for _, name := range names {
			text, err := files.ReadFile(name + ".lua")
			if err != nil {
				panic(err) // the file is embedded
			}
			all.Write(text)
		}
		return all.String()
	})
	made = append(made, source)
	return sync.OnceValue(func() *redis.Script { return redis.NewScript(source()) })
}

// Sources returns the scripts of all packages of the program by their SHA1, by which Redis runs them.
func Sources() map[string]string {
	sources := make(map[string]string, len(made))
	for _, source := range made {
		sources[redis.NewScript(source()).Hash()] = source()
	}
	return sources
}
