//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// detach protects a process from an interrupt at the keyboard: it is still needed to print results
// and to clean up.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
