package executor

import "flunq.io/flunq/engine/event"

// Concerns reports whether there is something to do for an executor about events
// of a type: all others it only acknowledges.
func Concerns(t event.Type) bool { return t == event.TaskRequested }
