package cmd

import "runtime/debug"

// swift lets the collector of garbage work less often: engines make much of it
// and keep little. Whoever sets GOGC decides.
func (sh *shell) swift() {
	const percent = 400
	if sh.Env("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
