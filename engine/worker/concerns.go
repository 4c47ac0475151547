package worker

import "flunq.io/flunq/engine/event"

// Concerns reports whether a worker handles events of type t. It acknowledges all others
// unread.
func Concerns(t event.Type) bool { return concerns(t) }
