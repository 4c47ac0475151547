package cli

import (
	"runtime"
	"runtime/debug"
)

// release is the version, set by the linker: -ldflags "-X flunq.io/flunq/cmd/cli.release=1.2.3".
var release string //nolint:gochecknoglobals // the linker can only set a variable

// supportedDSL names the language by its old and its new name.
const supportedDSL = "CNCF Serverless Workflow DSL 1.0.3 / Open Workflow Specification main"

// build describes this binary in the JSON output.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from uncommitted files
	Time     string `json:"time,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	DSL      string `json:"dsl"`
}

// Version returns the build information that the linker and the go command stored in the binary.
func Version() build {
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
