// Package startup sets GOGC before the other packages are initialized so that the garbage
// collector runs less often. Their initialization allocates 6 MB; with the default setting,
// collecting it takes a third of the time of 'flunq version'. Engines, too, allocate much and keep
// little: 'flunq sim' takes 1.5 times as much CPU with the default setting. It works because Go
// initializes independent packages in the order of their paths.
package startup

import (
	"os"
	"runtime/debug"
)

var _ = relaxed()

// relaxed sets GOGC, unless the environment does.
func relaxed() bool {
	const percent = 400
	if os.Getenv("GOGC") == "" { //nolint:forbidigo // nothing can pass it in so early
		debug.SetGCPercent(percent)
	}
	return true
}
