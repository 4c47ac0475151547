package check

import (
	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/graph"
)

// NewGraphCommand returns the command flunq graph.
func NewGraphCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw a workflow",
		Long: `Draws a workflow: as a tree for the terminal (text), as a Mermaid flowchart, which GitHub
and GitLab render, or as nodes and edges (json). The default is text on a terminal and
mermaid elsewhere. FILE may be "-" for stdin.`,
		Example: `  flunq graph order.yaml
  flunq graph -o mermaid order.yaml > order.mmd`,
		GroupID: cli.GroupDevelop,
		Args:    cli.OneArgument("file"),
	}
	formats := []string{"mermaid", "text", "json"}
	if sh.Terminal {
		formats[0], formats[1] = formats[1], formats[0]
	}
	format := cli.OutputFlag(c, formats...)
	ascii := c.Flags().Bool("ascii", false, "draw text, with ASCII characters only")
	c.RunE = func(c *cobra.Command, args []string) error {
		form := format.String()
		switch {
		case *ascii && !c.Flags().Changed("output"):
			form = "text"
		case *ascii && form != "text":
			return cli.Misusef("--ascii draws text, not %s: leave out one of the two", form)
		}
		def, err := cli.ReadDefinition(c.Context(), sh, args[0])
		if err != nil {
			return err
		}
		switch form {
		case "text":
			opts := graph.TextOptions{ASCII: *ascii || sh.ASCII(), Color: sh.OutColor()}
			if sh.Terminal {
				opts.Width = sh.Width
			}
			return graph.Text(sh.Out, def, opts)
		case "json":
			return cli.WriteJSON(sh.Out, graph.Of(def))
		default:
			return graph.Of(def).Mermaid(sh.Out)
		}
	}
	return c
}
