package expr

import (
	_ "embed"
	"fmt"
	"sync"

	"github.com/itchyny/gojq"
)

//go:embed prelude.jq
var preludeSource string

// prelude holds the definitions of prelude.jq by their signatures.
//
//nolint:gochecknoglobals // computed once, then read-only
var prelude = definitions("prelude.jq", &preludeSource)

// definitions returns the definitions of a file by their signatures.
func definitions(file string, source *string) func() map[string]string {
	return sync.OnceValue(func() map[string]string {
		query, err := gojq.Parse(*source + " .")
		if err != nil {
			panic(fmt.Errorf("expr: %s: %w", file, err))
		}
		out := map[string]string{}
		for _, def := range query.FuncDefs {
			out[signature(def.Name, len(def.Args))] = def.String()
		}
		return out
	})
}

// parsed parses a definition.
func parsed(source string) *gojq.FuncDef {
	query, err := gojq.Parse(source + " .")
	if err != nil {
		panic(fmt.Errorf("expr: prelude %q: %w", source, err))
	}
	return query.FuncDefs[0]
}
