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

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var files embed.FS

// made lists the scripts that packages have created, and reading the hashes of those that write
// nothing.
//
//nolint:gochecknoglobals // filled while packages are initialised
var (
	made    []*redis.Script
	reading = map[string]bool{}
)

// Reading is like New for a script that writes nothing: its calls do not wait for replicas.
func Reading(names ...string) *redis.Script {
	script := New(names...)
	reading[script.Hash()] = true
	return script
}

// Writes reports whether a script, identified by its hash, may write.
func Writes(hash string) bool { return !reading[hash] }

// New concatenates files into one script: first the files with functions that the last one calls.
// Packages call New while they are initialised so that All returns every script.
func New(names ...string) *redis.Script { return From(files, names...) }

// From is like New with the files of another package.
func From(files embed.FS, names ...string) *redis.Script {
	var source strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // the file is embedded
		}
		source.Write(text)
	}
	script := redis.NewScript(source.String())
	made = append(made, script)
	return script
}

// All returns the scripts of all packages of the program. Loading them in advance saves a round
// trip at the first use of each.
func All() []*redis.Script { return slices.Clone(made) }
