package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/graph"
	"flunq.io/flunq/engine/dsl"
)

func newGraphCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw the workflow",
		Long: `Draws a workflow: as a tree for the terminal (text), as a Mermaid flowchart, which GitHub
and GitLab render, or as nodes and edges (json). The default is text on a terminal and
mermaid elsewhere. FILE may be "-" for stdin.`,
		Example: `  flunq graph order.yaml
  flunq graph -o mermaid order.yaml > order.mmd`,
		GroupID: groupDevelop,
		Args:    oneArgument("file"),
	}
	formats := []string{"mermaid", "text", "json"}
	if sh.Terminal {
		formats[0], formats[1] = formats[1], formats[0]
	}
	format := outputFlag(c, formats...)
	ascii := c.Flags().Bool("ascii", false, "draw the text with ASCII characters only")
	c.RunE = func(c *cobra.Command, args []string) error {
		def, err := readDefinition(c.Context(), sh, args[0])
		if err != nil {
			return err
		}
		switch format.String() {
		case "text":
			look := graph.Look{ASCII: *ascii || sh.ascii(), Color: sh.outColor()}
			if sh.Terminal {
				look.Width = sh.Width
			}
			return graph.Text(sh.Out, def, look)
		case "json":
			return writeJSON(sh.Out, graph.Of(def))
		default:
			return graph.Of(def).Mermaid(sh.Out)
		}
	}
	return c
}

// readDefinition reads one document and prints its mistakes to stderr. It ignores warnings, which
// validate reports.
func readDefinition(ctx context.Context, sh *shell, file string) (*dsl.Definition, error) {
	source, err := readWorkflow(ctx, sh, file)
	if err != nil {
		return nil, err
	}
	name := displayName(file)
	def, _, err := dsl.Parse(name, source)
	if err != nil {
		explainMistakes(sh, err)
		return nil, reported(exitInvalid)
	}
	return def, nil
}
