// Package editor contains the commands that help to write workflows.
package editor

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/yaml"
)

// NewSchemaCommand returns the command flunq schema.
func NewSchemaCommand(sh *cli.Shell) *cobra.Command {
	kinds := schemaKinds()
	return &cobra.Command{
		Use:   "schema workflow|mocks|test",
		Short: "Print a JSON Schema for editors",
		Long: `Prints the JSON Schema (draft 7) of workflows, of mocks or of test files. With it,
editors complete keys, explain them and mark mistakes. It describes the form of
a document; 'flunq validate' also checks expressions and names, and 'flunq lsp'
shows in the editor what it finds.

With the YAML extension of VS Code, or with yaml-language-server in neovim, Helix
or another editor: write the schema to a file, and begin documents with a line
that names it, relative to the document.

    # yaml-language-server: $schema=workflow.schema.json

For all files of a kind, VS Code's settings.json can name it instead:

    "yaml.schemas": {
      "./mocks.schema.json": "*.mocks.yaml",
      "./test.schema.json": "*.test.yaml"
    }`,
		Example: `  flunq schema workflow > workflow.schema.json
  flunq schema test | jq '.definitions.expect.properties | keys'`,
		GroupID:           cli.GroupDevelop,
		ValidArgsFunction: cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp),
		Args:              cli.OneArgument("kind of file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(kinds, args[0]) {
				return cli.Misusef("no schema of %q: want %s%s", args[0], cli.OneOf(kinds), cli.DidYouMean(args[0], kinds, ""))
			}
			return cli.WriteJSON(sh.Out, Schema(args[0]))
		},
	}
}

func schemaKinds() []string { return []string{"workflow", "mocks", "test"} }

//go:embed schema.yaml
var schemaSource []byte

// language returns the definitions of schema.yaml, with their members in the order in which
// they are offered.
//
//nolint:gochecknoglobals // read once
var language = sync.OnceValue(func() *yaml.Node {
	c := yaml.NewCollector("schema.yaml")
	root := yaml.Read(c, schemaSource)
	if _, err := c.Result(schemaSource); err != nil {
		panic(err) // the file is part of the program
	}
	return root
})

const definitions = "#/definitions/"

// Schema returns the JSON Schema of a kind of file: workflow, mocks or test. The caller must
// not modify it.
func Schema(kind string) map[string]any {
	used := map[string]any{}
	var collect func(v any)
	collect = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				collect(item)
			}
		case map[string]any:
			for _, member := range v {
				collect(member)
			}
			ref, _ := v["$ref"].(string)
			if name, is := strings.CutPrefix(ref, definitions); is && used[name] == nil {
				used[name] = language().Get(name).Data
				collect(used[name])
			}
		}
	}
	root, _ := language().Get(kind).Data.(map[string]any)
	collect(root)
	out := map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": used}
	maps.Copy(out, root)
	return out
}
