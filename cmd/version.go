package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the linker: -ldflags "-X flunq.io/flunq/cmd.release=1.2.3".
var release string //nolint:gochecknoglobals // the linker can only set a variable

// supportedDSL names the language by both of its names.
const supportedDSL = "CNCF Serverless Workflow DSL 1.0.3 / Open Workflow Specification main"

// build is the version in the JSON output.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from uncommitted files
	Time     string `json:"time,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	DSL      string `json:"dsl"`
}

func newVersionCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:               "version",
		Short:             "Show the versions of flunq and of the DSL",
		Example:           "  flunq version -o json | jq -r .version",
		GroupID:           groupAbout,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := outputFlag(c, "text", "json")
	c.RunE = func(*cobra.Command, []string) error { return writeVersion(sh, format.String()) }
	return c
}

func writeVersion(sh *shell, format string) error {
	b := version()
	if format == "json" {
		return writeJSON(sh.Out, b)
	}
	fmt.Fprintf(sh.Out, "flunq %s", b.Version)
	if b.Revision != "" {
		fmt.Fprintf(sh.Out, " (%.12s %s)", b.Revision, b.Time)
	}
	fmt.Fprintf(sh.Out, "\n%s %s\n%s\n", b.Go, b.Platform, b.DSL)
	return nil
}

// version reads what the linker and the Go tool stored in the binary.
func version() build {
	b := build{
		Version:  release,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		DSL:      supportedDSL,
	}
	info, ok := debug.ReadBuildInfo()
	if ok && b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
