// Command module creates a file-based module proxy that serves the committed flunq as v0.0.1, to test
// 'go install'.
//
//	go run ./module REPOSITORY PROXY
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if err := write(os.Args[1], filepath.Join(os.Args[2], "flunq.io/flunq/@v")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(repository, folder string) error {
	version := module.Version{Path: "flunq.io/flunq", Version: "v0.0.1"}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":  []byte(version.Version + "\n"),
		".info": fmt.Appendf(nil, `{"Version":%q}`, version.Version),
		".mod":  mod,
	} {
		if name != "list" {
			name = version.Version + name
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	out, err := os.Create(filepath.Join(folder, version.Version+".zip"))
	if err != nil {
		return err
	}
	defer out.Close()
	return zip.CreateFromVCS(out, version, repository, "HEAD", "")
}
