package check

import (
	"fmt"
	"path/filepath"
	"strings"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/sim/spec"
)

// annotate prints failures as GitHub annotations, which appear beside the lines of a change. GitHub
// reads them from both stdout and stderr.
func (b *batch) annotate() {
	mode := b.annotations.String()
	if mode == "none" || mode == "auto" && b.sh.Env("GITHUB_ACTIONS") != "true" {
		return
	}
	for _, f := range b.files {
		for _, m := range cli.AllMistakes(f.err) {
			text := m.Message
			if m.Suggestion != "" {
				text += "\nhelp: " + m.Suggestion
			}
			b.annotation(spec.Place{File: m.File, Line: m.Line, Col: m.Column}, "invalid", text)
		}
		for _, c := range f.cases {
			switch c.outcome {
			case failed:
				for _, d := range c.verdict.Differences {
					b.annotation(d.At, c.Name, plainDifference(d))
				}
			case broken:
				b.annotation(c.At, c.Name, "flunq itself failed: "+c.Redact(c.err.Error()))
			default:
			}
		}
	}
}

func (b *batch) annotation(at spec.Place, title, message string) {
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	text := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	fmt.Fprintf(b.sh.Err, "::error file=%s,line=%d,col=%d,title=%s::%s\n",
		property.Replace(b.inWorkspace(cli.Printable(at.File))), at.Line, at.Col,
		property.Replace(cli.Printable(title)), text.Replace(strings.TrimSpace(cli.Printable(message))))
}

// inWorkspace returns the path of a file relative to the root of the checkout, as GitHub expects.
func (b *batch) inWorkspace(file string) string {
	root := b.sh.Env("GITHUB_WORKSPACE")
	whole, err := filepath.Abs(file)
	if root != "" && err == nil {
		if inside, err := filepath.Rel(root, whole); err == nil && filepath.IsLocal(inside) {
			file = inside
		}
	}
	return filepath.ToSlash(file)
}
