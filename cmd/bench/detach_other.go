//go:build !unix

package bench

import "os/exec"

// detach is for systems with process groups.
func detach(*exec.Cmd) {}
