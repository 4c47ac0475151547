//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// detach keeps an interrupt at the keyboard from a process: it is still needed to
// say what is known, and to tidy up.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
