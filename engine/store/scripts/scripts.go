// Package scripts holds the Lua scripts that change what the store keeps, and those that read
// it in one step. Above each script stand its keys, its arguments and what it returns.
package scripts

import (
	"embed"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var files embed.FS

// made are the scripts that packages have made.
var made []*redis.Script //nolint:gochecknoglobals // filled while packages are initialised

// New joins files to one script: first those with the functions that the last one calls.
// Packages make their scripts while they are initialised, so that All knows every one.
func New(names ...string) *redis.Script {
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

// All returns the scripts of every package of the program. Loading them in advance saves each
// the round trip to a Redis that does not know it yet.
func All() []*redis.Script { return slices.Clone(made) }
