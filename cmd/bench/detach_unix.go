//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// detach protects a process from an interrupt at the keyboard: printing results and
// removing data still need it.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
