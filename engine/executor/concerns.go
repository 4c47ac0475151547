package executor

import "flunq.io/flunq/engine/event"

// Concerns reports whether an executor handles events of type t. It acknowledges all
// others unread.
func Concerns(t event.Type) bool { return t == event.TaskRequested }
