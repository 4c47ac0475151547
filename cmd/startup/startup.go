// Package startup makes the garbage collector run less often, from before the other packages are
// initialized: that allocates 6 MB, and with the default setting a third of the time of 'flunq
// version' goes into collecting it. Engines, too, allocate much and keep little. It works because
// Go initializes packages that do not depend on each other in the order of their paths.
package startup

import (
	"os"
	"runtime/debug"
)

var _ = relaxed()

// relaxed sets GOGC, unless the environment has it.
func relaxed() bool {
	const percent = 400
	if os.Getenv("GOGC") == "" { //nolint:forbidigo // nothing hands it in so early
		debug.SetGCPercent(percent)
	}
	return true
}
